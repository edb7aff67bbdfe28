package collect

import (
	"encoding/json"
	"maps"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// Context returns the journal context of measurements in an environment: everything that the rows depend on except the
// values of the case itself.
func (c *Config) Context(spec *grid.Spec, env *runtimes.Environment) checkpoint.Context {
	ctx := c.origin(spec, env)
	code := c.codeIn(spec.Op, env)
	if code != nil && len(code.Files) > 0 {
		ctx.Extra["source"] = code.String()
	}
	if packages := c.packagesIn(code); len(packages) > 0 {
		ctx.Extra["packages"] = packages
	}
	if c.kind().UsesGPUs && len(env.Variables) > 0 {
		ctx.Extra["variables"] = env.Variables
	}
	if c.kindFilesID != "" {
		ctx.Extra["files"] = c.kindFilesID
	}
	if minor := minorVersion(env.Env["python"]); c.kind().Interpreted && minor != "" {
		ctx.Extra["python"] = minor
	}
	if c.runtime.Workers > 1 { // the workers share a device
		ctx.Extra["workers"] = c.runtime.Workers
	}
	return ctx
}

// origin returns the context of rows that are imported from files. Their source code, interpreter and number of workers
// are unknown and left out.
func (c *Config) origin(spec *grid.Spec, env *runtimes.Environment) checkpoint.Context {
	ctx := checkpoint.Context{Op: spec.Op, Runtime: c.runtime.Kind, Framework: env.Framework, Version: env.Version,
		Device: env.Device, Measure: c.measured(), Extra: map[string]any{}}
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
	if c.runtime.ImageDigest != "" {
		ctx.Extra["image_digest"] = c.runtime.ImageDigest
	} else if c.runtime.Image != "" {
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

// journal opens the case journal of an environment. Imported rows are used for cases that were not measured.
func (c *Config) journal(store *checkpoint.Store, spec *grid.Spec,
	env *runtimes.Environment) (*checkpoint.Journal, checkpoint.Context, error) {
	ctx := c.Context(spec, env)
	j, err := store.Journal(ctx, c.origin(spec, env))
	return j, ctx, err
}

// minorVersion returns 3.11 for 3.11.7. Patch releases of an interpreter share measurements.
func minorVersion(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// versionWord is the attribute of a python op's binding that is not sent to the worker.
const versionWord = "version"

// stated reports whether the binding has a version, with which the author marks code changes. The op's files then need
// not be compared.
func (c *Config) stated() bool {
	b, _ := c.bind.(map[string]any)
	_, ok := b[versionWord]
	return ok && c.kind().Entry != nil
}

// workerBind returns the binding that is sent to the worker.
func (c *Config) workerBind() any {
	if !c.stated() {
		return c.bind
	}
	out := maps.Clone(c.bind.(map[string]any))
	if delete(out, versionWord); len(out) == 0 {
		return nil
	}
	return out
}

// beside maps the attributes of a collect block that do not change rows to the reason; see stage.Kind. Verdicts are not
// part of the rows.
var beside = map[string]string{
	"ramp":      "it decides in which order is tried, and when to stop",
	"breaker":   "it decides which cases are not tried any further",
	"retry":     "it decides how often a case is tried",
	"deadline":  "it decides how long a case may take",
	"weights":   "cases do not depend on each other",
	"executor":  "a row means the same wherever its case was scheduled",
	"reference": "the time is estimated from it",
}

// excluded returns the paths of the options of the runtime and of its kind's blocks that do not change the meaning of
// rows, with the reasons.
func (c *Config) excluded() map[string]string {
	out := map[string]string{}
	for path, why := range c.runtimeBeside() {
		out["runtime."+path] = why
	}
	for _, b := range c.kind().Collect {
		if b.Beside {
			out["blocks."+b.Name] = b.Doc
		}
		for _, o := range b.Options {
			if o.Beside {
				out["blocks."+b.Name+"."+o.Name] = o.Doc
			}
		}
	}
	return out
}

func (c *Config) runtimeBeside() map[string]string {
	out := maps.Clone(runtimes.Beside)
	for name, v := range c.runtime.Options {
		if o := c.kind().Option(name); c.kind().Beside(name) {
			out["options."+name] = "the kind of the runtime declares it"
		} else if text, err := json.Marshal(stage.Plain(v)); o != nil && err == nil && string(text) == o.Default {
			out["options."+name] = "it is the default"
		}
	}
	if len(c.runtime.Launcher) == 0 {
		out["launcher"] = "there is none"
	}
	return out
}

// Values implements stage.Valuer. It returns the block with the effective measurement settings and the blocks of the
// runtime's kind.
func (c *Config) Values() map[string]any {
	out := stage.Fields(c)
	delete(out, "measure")
	if m := c.measured(); m != nil {
		out["measure"] = m
	}
	delete(out, "bind")
	if c.bind != nil {
		out["bind"] = c.bind
	}
	out["runtime"] = stage.RuntimeValues(c.runtime)
	if len(c.blocks) > 0 {
		out["blocks"] = plainBlocks(c.blocks)
	}
	return stage.Without(out, c.excluded())
}

// runtimeExtra returns the settings of the runtime's block that distinguish measurements in journals. The kind of the
// runtime and fields that workers report are left out.
func (c *Config) runtimeExtra() map[string]any {
	out := stage.Without(stage.Without(stage.RuntimeValues(c.runtime), c.runtimeBeside()), runtimes.Told)
	options, _ := out["options"].(map[string]any)
	delete(out, "options")
	for name, v := range options {
		out["option."+name] = v
	}
	return out
}

// blockExtra returns the options of the runtime kind's blocks that distinguish measurements.
func (c *Config) blockExtra() map[string]any {
	out, _ := stage.Without(map[string]any{"blocks": plainBlocks(c.blocks)}, c.excluded())["blocks"].(map[string]any)
	maps.DeleteFunc(out, func(_ string, v any) bool {
		options, _ := v.(map[string]any)
		return len(options) == 0
	})
	return out
}
