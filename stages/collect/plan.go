package collect

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/stages/grids"
)

// opName is the op as the worker knows it.
func (c *Config) opName(gridOp string) string {
	if c.Op != "" {
		return c.Op
	}
	return gridOp
}

// keyExtra is the part of the stage's key other than config and inputs.
type keyExtra struct {
	Environment map[string]string `json:"environment"`
	// Source is the code of a python op, Python its interpreter; see Context.
	Source    string            `json:"source,omitempty"`
	Packages  map[string]string `json:"packages,omitempty"`
	Variables map[string]string `json:"variables,omitempty"`
	Files     string            `json:"files,omitempty"`
	Python    string            `json:"python,omitempty"`
	Selection any               `json:"selection,omitempty"`
	// Instrument is the version of the measuring code; see Context.
	Instrument int `json:"instrument,omitempty"`
	// Reads identify what the op reads of other stages.
	Reads []string `json:"reads,omitempty"`
}

// KeyExtra implements stage.Keyer: the environment as far as it is known
// without a worker, and the selection of cases.
func (c *Config) KeyExtra(ctx context.Context, pc *stage.PlanContext) (any, hcl.Diagnostics) {
	k := keyExtra{Instrument: c.about().Instrument}
	if c.bind != nil {
		var err error
		if c.bind, err = c.kind().Bind(c.bind, pc.PlanDir); err != nil {
			return nil, (&planError{err, "Cannot read the kernel"}).diagnostics(pc)
		}
	}
	known, err := c.resolve(ctx, pc)
	if err != nil {
		return nil, (&planError{err, "Cannot read the files"}).diagnostics(pc)
	}
	if known {
		k.Reads = c.readIDs
	}
	k.Files = c.kindFilesID
	cases, op := grids.CasesOf(pc.Upstream(c.grid)), ""
	if cases != nil {
		op = cases.Spec().Op
	}
	env := c.measuredIn.Load()
	if env == nil { // other stages may have met other workers since
		env, _ = c.expect(ctx, pc.Store, op, pc.PlanDir)
	}
	if env != nil {
		c.assumed.Store(env)
		k.Environment = map[string]string{"framework": env.Framework, "version": env.Version, "device": env.Device}
		if c.about().Interpreted {
			k.Python = minorVersion(env.Env["python"])
		}
	}
	if cases != nil && env != nil {
		if code := c.codeIn(op, env); code != nil {
			k.Source, k.Packages = code.String(), c.packagesIn(code)
		}
		if c.about().UsesGPUs {
			k.Variables = env.Variables
		}
	}
	if cases != nil && truncated(cases.Len(), pc.Options) {
		k.Selection = selectionKey(pc.Options)
	}
	return k, nil
}

func selectionKey(o stage.Options) any {
	key := map[string]any{"limit": o.Limit, "smoke": o.Smoke}
	if o.Smoke {
		key["seed"] = o.Seed
	}
	return key
}
