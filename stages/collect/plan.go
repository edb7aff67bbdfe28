package collect

import (
	"context"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// opName is the op as the worker knows it.
func (c *Config) opName(gridOp string) string {
	if c.Op != "" {
		return c.Op
	}
	return gridOp
}

// KeyExtra implements stage.Keyer: the environment as far as it is known
// without a worker, and the selection of cases.
func (c *Config) KeyExtra(ctx context.Context, pc *stage.PlanContext) (any, hcl.Diagnostics) {
	if bind, ok := c.bind.(map[string]any); ok && c.kind().Bind != nil {
		var err error
		if c.bind, err = c.kind().Bind(bind, pc.PlanDir); err != nil {
			return nil, stage.ErrorAt(pc.Range, "Cannot read the kernel", "%v.", err)
		}
	}
	if _, err := c.resolve(ctx, pc); err != nil {
		return nil, stage.ErrorAt(pc.Range, "Cannot read the files", "%v.", err)
	}

	k := map[string]any{}
	cases, spec := grids.CasesOf(pc.Upstream(c.grid)), &grid.Spec{}
	if cases != nil {
		spec = cases.Spec
	}
	env := c.measuredIn.Load()
	if env == nil { // other stages may have met other workers since
		env, _ = c.expect(ctx, pc.Store, pc.Address, pc.PlanDir, cases)
	}
	if env == nil {
		env = &runtimes.Environment{}
	} else {
		c.assumed.Store(env)
		k["environment"] = map[string]string{"framework": env.Framework, "version": env.Version, "device": env.Device}
	}

	all := c.Context(spec, env).Extra // the rest of it is in the block
	for _, name := range []string{"source", "packages", "variables", "files", "python", instrumentWord, readsWord} {
		if v, ok := all[name]; ok {
			k[name] = v
		}
	}
	if cases != nil && truncated(cases.Len(), pc.Options) {
		chosen := map[string]any{"limit": pc.Options.Limit, "smoke": pc.Options.Smoke}
		if pc.Options.Smoke {
			chosen["seed"] = pc.Options.Seed
		}
		k["selection"] = chosen
	}
	return k, nil
}
