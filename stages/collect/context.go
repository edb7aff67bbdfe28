package collect

import (
	"encoding/json"
	"maps"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/stages/runtimes"
)

// Context returns the journal context of measurements in an environment: everything that the rows depend
// on except the values of the case itself.
func (c *Config) Context(spec *grid.Spec, env *runtimes.Environment) checkpoint.Context {
	ctx := c.origin(spec, env)
	code := c.codeIn(spec.Op, env)
	if code != nil && len(code.Files) > 0 {
		ctx.Extra["source"] = code.String()
	}
	if packages := c.packagesIn(code); len(packages) > 0 {
		ctx.Extra["packages"] = packages
	}
	if c.about().UsesGPUs && len(env.Variables) > 0 {
		ctx.Extra["variables"] = env.Variables
	}
	if c.kindFilesID != "" {
		ctx.Extra["files"] = c.kindFilesID
	}

	if c.about().Interpreted {
		if minor := minorVersion(env.Env["python"]); minor != "" {
			ctx.Extra["python"] = minor
		}
	}

	if c.runtime.Workers > 1 { // the workers share a device
		ctx.Extra["workers"] = c.runtime.Workers
	}

	return ctx
}

// origin returns the context of rows that ckpt import reads from files. Their source code, interpreter
// and number of workers are unknown and left out.
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

	if v := c.about().Instrument; v > 0 {
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

// instrumentWord is the context field with the version of the measuring code.
const instrumentWord = "instrument"

// journal opens the case journal of an environment. Imported rows are used for cases that were not
// measured.
func (c *Config) journal(store *checkpoint.Store, spec *grid.Spec,
	env *runtimes.Environment) (*checkpoint.Journal, checkpoint.Context, error) {
	ctx := c.Context(spec, env)
	j, err := store.Journal(ctx, c.origin(spec, env))
	return j, ctx, err
}

// minorVersion returns 3.11 for 3.11.7. Patch releases of an interpreter share measurements.
func minorVersion(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// stated reports whether the binding has a version, with which the author marks code changes. The op's
// files then need not be compared.
func (c *Config) stated() bool {
	b, _ := c.bind.(map[string]any)
	_, ok := b[versionWord]
	return ok && c.about().HasCode
}

// versionWord is the attribute of a python op's binding that is not sent to the worker.
const versionWord = "version"

// workerBind returns the binding that is sent to the worker.
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
