package collect

import (
	"encoding/json"
	"maps"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/stages/runtimes"
)

// Context is the journal that measurements of cases in an environment belong
// to: everything that its rows depend on other than a case's own values.
func (c *Config) Context(spec *grid.Spec, env *runtimes.Environment) checkpoint.Context {
	ctx := c.origin(spec, env)
	if source, ok := c.sourceIn(spec.Op, env); ok {
		ctx.Extra["source"] = source
	}
	if c.kind().Interpreter != nil {
		if minor := minorVersion(env.Env["python"]); minor != "" {
			ctx.Extra["python"] = minor
		}
	}
	if c.runtime.Workers > 1 { // of them share a device
		ctx.Extra["workers"] = c.runtime.Workers
	}
	return ctx
}

// origin is the context of rows that ckpt import reads from files. The code, the
// interpreter and the number of workers that measured them are not known.
func (c *Config) origin(spec *grid.Spec, env *runtimes.Environment) checkpoint.Context {
	ctx := checkpoint.Context{Op: spec.Op, Runtime: c.runtime.Kind, Measure: c.measured(), Extra: map[string]any{}}
	for _, name := range c.Environment {
		switch name {
		case "framework":
			ctx.Framework = env.Framework
		case "version":
			ctx.Version = env.Version
		case "device":
			ctx.Device = env.Device
		default:
			if ctx.Env == nil {
				ctx.Env = map[string]string{}
			}
			ctx.Env[name] = env.Env[name]
		}
	}
	if v := c.kind().Instrument; v > 0 {
		ctx.Extra[instrumentWord] = v
	}
	if len(c.readIDs) > 0 {
		ctx.Extra[readsWord] = c.readIDs
	}
	if c.Op != "" && c.Op != spec.Op {
		ctx.Extra["op"] = c.Op
	}
	if len(spec.Constants) > 0 {
		constants := map[string]any{}
		for _, k := range spec.Constants {
			constants[k.Name] = json.RawMessage(k.JSON())
		}
		ctx.Extra["constants"] = constants
	}

	if c.runtime.Package != "" {
		ctx.Extra["package"] = c.runtime.Package
	}
	// If the plan states the runtime's image, rows of another image do not count.
	switch {
	case c.runtime.ImageDigest != "":
		ctx.Extra["image_digest"] = c.runtime.ImageDigest
	case c.runtime.Image != "":
		ctx.Extra["image"] = c.runtime.Image
	}
	if c.bind != nil {
		ctx.Extra["bind"] = c.bind
	}
	if extra := c.runtimeExtra(); len(extra) > 0 {
		ctx.Extra["runtime"] = extra
	}
	if extra := c.blockExtra(); len(extra) > 0 {
		ctx.Extra["blocks"] = extra
	}
	return ctx
}

// instrumentWord is where a context has the version of the measuring code.
const instrumentWord = "instrument"

// journal opens the case journal of an environment. Imported rows count for cases
// that were not measured.
func (c *Config) journal(store *checkpoint.Store, spec *grid.Spec, env *runtimes.Environment) (*checkpoint.Journal, checkpoint.Context, error) {
	ctx := c.Context(spec, env)
	j, err := store.Journal(ctx, c.origin(spec, env))
	return j, ctx, err
}

// minorVersion is 3.11 of 3.11.7: patches of an interpreter measure alike.
func minorVersion(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// sourceIn is the code that an op is measured with, as the journal has it: what
// the binding's version says, where it has one, else the digest of its files,
// else, where these are not here, what was seen last.
func (c *Config) sourceIn(gridOp string, env *runtimes.Environment) (string, bool) {
	if c.stated() {
		return "", false // the binding is in the context
	}
	if now := c.source.Load(); now != nil {
		return now.String(), true
	}
	seen, ok := env.Sources[c.sourceKey(gridOp)]
	return seen, ok
}

func (c *Config) sourceKey(gridOp string) string {
	return runtimes.SourceKey(c.runtime, c.opName(gridOp), c.bind)
}

// stated says whether the author tells by the binding's version when the code
// has changed, so that its files need not be compared.
func (c *Config) stated() bool {
	b, _ := c.bind.(map[string]any)
	_, ok := b[versionWord]
	return ok && c.kind().Source != nil
}

// versionWord is what of a python op's binding is not the worker's.
const versionWord = "version"

// workerBind is the binding as the worker takes it.
func (c *Config) workerBind() any {
	if !c.stated() {
		return c.bind
	}
	out := maps.Clone(c.bind.(map[string]any))
	delete(out, versionWord)
	if len(out) == 0 {
		return nil
	}
	return out
}

// readSource finds the code of the op, for Context. The environment, where it is
// known, says which version of the framework chooses it.
func (c *Config) readSource(gridOp, planDir string, env *runtimes.Environment) {
	version := ""
	if env != nil {
		version = env.Version
	}
	if s, ok := c.pools.SourceOf(c.runtime, planDir, c.opName(gridOp), c.workerBind(), version); ok {
		c.source.Store(&s)
	} else {
		c.source.Store(nil)
	}
}
