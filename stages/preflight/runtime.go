package preflight

import (
	"context"
	"errors"

	"aicplan/stages/runtimes"
)

// RuntimeChecks look at what the runtime needs.
func RuntimeChecks(pools *runtimes.Pools) []Check {
	return []Check{{
		Name: "framework", Needs: "runtime", Summary: "whether what the runtime runs on is installed in the version it requires",
		Look: func(ctx context.Context, t Target) []Finding {
			if m := pools.Absent(runtimes.Running(ctx), t.Runtime); m != nil {
				return []Finding{{Skip: true, Message: "what needs it waits for another place: " + m.What, Fix: m.Fix}}
			}

			text, err := pools.Framework(runtimes.Running(ctx), t.Runtime)
			var m *runtimes.Missing

			var u *runtimes.Unjudged
			switch {
			case errors.As(err, &u):
				return []Finding{{Skip: true, Message: u.What, Fix: u.Fix}}
			case errors.As(err, &m):
				return []Finding{{Message: m.What, Fix: m.Fix}}
			case err != nil:
				return []Finding{{Message: err.Error()}}
			}

			return []Finding{{OK: true, Message: text}}
		},
	}}
}
