package collect

import (
	"maps"

	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// beside maps the attributes of a collect block that do not change rows to the reason; see stage.Kind.
// Verdicts are not part of the rows, because Judge computes them again.
var beside = map[string]string{
	"description": "it is for readers",
	"ramp":        "it decides in which order is tried, and when to stop",
	"breaker":     "it decides which cases are not tried any further",
	"retry":       "it decides how often a case is tried",
	"deadline":    "it decides how long a case may take",
	"weights":     "cases do not depend on each other",
	"executor":    "a row means the same wherever its case was scheduled",
	"fail_over":   "it judges what is there; see Judge",
	"reference":   "the time is estimated from it",
}

// excluded returns the paths of the options of the runtime and of its kind's blocks that do not change the
// meaning of rows, with the reasons.
func (c *Config) excluded() map[string]string {
	out := map[string]string{}
	if c.runtime == nil {
		return out
	}

	for path, why := range c.runtimeBeside() {
		out["runtime."+path] = why
	}

	for _, b := range c.about().Collect {
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
	kind := c.about()
	for name := range c.runtime.Options {
		if kind.Beside(name) {
			out["options."+name] = "the kind of the runtime says so"
		}
	}
	return out
}

// Values implements stage.Valuer. It returns the block with the effective measurement settings, the
// blocks of the runtime's kind.
func (c *Config) Values() map[string]any {
	out := stage.Fields(c)
	delete(out, "measure")
	if m := c.measured(); m != nil {
		out["measure"] = m
	}
	if c.bind != nil {
		out["bind"] = c.bind
	}
	if c.runtime != nil {
		out["runtime"] = stage.RuntimeValues(c.runtime)
	}
	if len(c.blocks) > 0 {
		blocks := map[string]any{}
		for name, v := range c.blocks {
			blocks[name] = stage.Plain(v)
		}
		out["blocks"] = blocks
	}

	return stage.Without(out, c.excluded())
}

// runtimeExtra returns the settings of the runtime's block that distinguish measurements in journals.
// The kind of the runtime and fields that workers report are left out.
func (c *Config) runtimeExtra() map[string]any {
	values := stage.Without(stage.RuntimeValues(c.runtime), c.runtimeBeside())
	values = stage.Without(values, runtimes.Told)
	out := map[string]any{}
	options, _ := values["options"].(map[string]any)
	delete(values, "options")
	maps.Copy(out, values)
	for name, v := range options {
		out["option."+name] = v
	}
	return out
}
