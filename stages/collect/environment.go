package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// refused returns the outcome "needs" if a worker reported that it cannot run the stage here. It returns
// all other errors unchanged.
func (r *running) refused(err error) (*stage.Outcome, error) {
	if sf, ok := errors.AsType[*worker.StartFailure](err); ok && sf.Reported &&
		sf.Failure.Class == worker.ClassUnsupportedConfig {
		return r.needs(sf.Failure.Message), nil
	}
	return nil, err
}

// explained adds the suggested fix to an error.
func explained(err error) error {
	if m, ok := errors.AsType[*runtimes.Missing](err); ok && m.Fix != "" {
		return fmt.Errorf("%w; to do: %s", err, m.Fix)
	}
	return err
}

// up starts workers. It returns nil without an error if the user stopped the run in the meantime.
func (r *running) up(ctx context.Context, set worker.Settings) (*worker.Hello, *worker.Code, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-r.rc.Stop:
			cancel()
		case <-done:
		}
	}()

	hello, code, err := r.pool.Up(ctx, set, len(r.job.todo()), r.opName(r.planned.cases.Spec().Op))
	if err != nil && r.stopped() && errors.Is(err, context.Canceled) {
		return nil, nil, nil
	}

	return hello, code, err
}

func (r *running) workerLog(slot, level, text string) {
	if level == "trace" {
		return
	}

	if level == stage.MessageStatus || level == stage.MessageShow {
		r.rc.Events.Message(r.rc.Address, level, text)
		return
	}

	r.rc.Events.Emit(r.rc.Address, "worker", map[string]any{"worker": slot, "level": level, "text": text})
	if level != "warn" && level != "error" {
		return
	}

	// Fresh processes of every slot repeat the same line, so show it once.
	line := firstLine(text)
	key := level + digits.ReplaceAllString(line, "#")
	if !r.shown[key] {
		r.shown[key] = true
		r.rc.Events.Message(r.rc.Address, level, slot+": "+line)
	}
}

// acceptEnvironment takes the environment of the first worker. If it differs from the expected one, the open cases
// are determined again from its journal.
func (r *running) acceptEnvironment(h *worker.Hello, code *worker.Code) error {
	reported := runtimes.EnvironmentOf(r.runtime, h)
	if err := r.reported(&reported); err != nil {
		return err
	}

	reported.SeenAt, reported.Workers = time.Now().UTC().Format(time.RFC3339), r.pool.AtOnce()
	if r.env != nil {
		reported.Code = r.env.Code
	} else if seen, err := runtimes.Known(r.rc.Store, r.runtime.Address); err == nil && seen != nil {
		reported.Code = seen.Code
	}

	now := r.withCode(r.planned.cases.Spec().Op, r.rc.PlanDir, &reported)
	env, err := r.imported(now, r.codeIn(r.planned.cases.Spec().Op, now), code)
	if err != nil {
		return err
	}

	same, err := r.compareAssumed(env, "nothing of it was measured")
	switch {
	case err != nil:
		return err
	case same:
		r.env = env
		return nil
	}

	return r.useEnvironment(env)
}

// compareAssumed compares the environment that the workers report with the one that the plan assumed, and
// reports whether both have the same journal. If not, later stages and plans use the reported one. done
// describes the state of the stage's cases in error messages.
func (r *running) compareAssumed(env *runtimes.Environment, done string) (bool, error) {
	same := false
	if r.env != nil {
		var err error
		if same, err = r.sameContext(env); err != nil {
			return false, err
		}
	}

	if !same {
		r.pools.Met(r.runtime, env)
	}

	if err := r.checkReused(env, done); err != nil {
		return false, err
	}

	if r.env != nil && !same {
		// Workers report the code of an op only when it was loaded, so other code is no surprise.
		if diff := r.differences(r.env, env); diff != "" {
			r.rc.Events.Message(r.rc.Address, "warn", "the environment is not the one that the plan assumed: "+diff)
		}
	}

	return same, nil
}

// checkReused returns an error if this run has reused rows of other stages on the same runtime that were
// measured in a different environment. done describes the state of the stage's cases. Stages that run on
// other machines are not compared, because their environments always differ.
func (r *running) checkReused(env *runtimes.Environment, done string) error {
	if r.rc.Standing == nil || r.part != nil {
		return nil // the coordinator compares the tasks
	}

	var others []string
	diff := ""
	for address, s := range r.rc.Standing() {
		c, ok := s.(*Config)
		if !ok || c == r.Config || c.runtime.Address != r.runtime.Address || !sameMachines(c, r.Config) {
			continue
		}

		taken := c.assumed.Load()
		if taken == nil {
			continue
		}

		if d := c.apart(c.but(hostField), taken, env); d != "" {
			others, diff = append(others, address), d
		}
	}

	if len(others) == 0 {
		return nil
	}
	if err := r.pools.Remember(r.rc.Store, r.runtime, *env); err != nil {
		return err
	}

	slices.Sort(others)
	if len(others) > 3 {
		others = append(others[:3], fmt.Sprintf("%d more", len(others)-3))
	}

	advice := "apply again: the plan then knows what the workers report"
	if r.Elsewhere() {
		advice += "; where the executor has nodes of several kinds, name one kind with constraint"
	}

	return fmt.Errorf("workers of %s report another environment than that of rows which this run has taken: %s, against %s; %s; %s",
		r.runtime.Address, diff, strings.Join(others, ", "), done, advice)
}

// sameMachines reports whether two stages measure in the same place: on this machine, or with the same
// executor.
func sameMachines(a, b *Config) bool {
	return !a.Elsewhere() && !b.Elsewhere() || a.Elsewhere() && b.Elsewhere() && a.place.Address == b.place.Address
}

// sameContext reports whether rows of an environment belong to the journal of the expected one.
func (r *running) sameContext(env *runtimes.Environment) (bool, error) {
	spec := r.planned.cases.Spec()
	before, err := r.Context(spec, r.env).Digest()
	if err != nil {
		return false, err
	}
	now, err := r.Context(spec, env).Digest()
	return before == now, err
}

// reported returns an error if the workers do not report a field that the block lists in environment,
// such as a misspelled one.
func (r *running) reported(env *runtimes.Environment) error {
	for _, name := range r.Environment {
		_, told := env.Env[name]
		if !told && !slices.Contains([]string{"framework", "version", "device"}, name) {
			fields := append([]string{"framework", "version", "device"}, slices.Sorted(maps.Keys(env.Env))...)
			return fmt.Errorf("environment lists %q, which workers of %s do not report; they report %s", name,
				r.runtime.Address, strings.Join(fields, ", "))
		}
	}
	return nil
}

// hostField identifies the node and not the conditions of the measurement. Stages of one run may use
// different nodes, especially with an executor.
const hostField = "hostname"

// but returns the environment fields except one.
func (c *Config) but(field string) []string {
	return slices.DeleteFunc(slices.Clone(c.Environment), func(name string) bool { return name == field })
}

// differences lists the environment fields that differ between a and b.
func (c *Config) differences(a, b *runtimes.Environment) string {
	return c.apart(c.Environment, a, b)
}

func (c *Config) apart(fields []string, a, b *runtimes.Environment) string {
	var out []string
	for _, name := range fields {
		if x, y := a.Field(name), b.Field(name); x != y {
			out = append(out, fmt.Sprintf("%s %q -> %q", name, x, y))
		}
	}

	if c.about().Interpreted && !slices.Contains(c.Environment, "python") {
		if x, y := minorVersion(a.Env["python"]), minorVersion(b.Env["python"]); x != y && x != "" && y != "" {
			out = append(out, fmt.Sprintf("python %q -> %q", x, y))
		}
	}

	return strings.Join(out, ", ")
}
