package gate

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// columnar is implemented by checks that name columns of the data. Columns of planned cases or of a
// reference are not included.
type columnar interface{ columns() []string }

func (c *prediction) columns() []string { return c.Columns }

func (a *assertion) columns() []string {
	var out []string
	for _, t := range a.condition.Variables() {
		if name, ok := columnOf(t); ok && slices.Contains(columnAggregates, t.RootName()) {
			out = append(out, name)
		}
	}
	return out
}

var _ stage.Forecaster = (*Config)(nil)

// Forecast implements stage.Forecaster. A gate passes its input on. The diagnostics name columns that a
// check uses and that the data will not have, so that the plan fails before measuring starts.
func (c *Config) Forecast(at hcl.Range, in stage.Forecasts) (*stage.Forecast, hcl.Diagnostics) {
	f := in(c.input)
	if f != nil && f.Cases {
		return f, hcl.Diagnostics{stage.NoRows(at)}
	}

	var diags hcl.Diagnostics
	for _, e := range c.entries {
		var names []string
		for _, sel := range e.on {
			names = append(names, sel.Column)
		}

		if n, ok := e.check.(columnar); ok && e.minJudged > 0 {
			for _, name := range n.columns() {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}

		missing := stage.MissingColumns(f, names, e.block)
		diags = append(diags, missing...)
		if !missing.HasErrors() {
			diags = append(diags, e.unmatched(f)...)
		}

		if r, ok := e.check.(referrer); ok && r.refersTo() != nil {
			if ref := in(r.refersTo()); ref != nil && ref.Cases {
				diags = append(diags, stage.NoRows(e.block))
			}
		}

		if r, ok := e.check.(gatherer); ok {
			for _, p := range r.gathers() {
				if ref := in(p); ref != nil && ref.Cases {
					diags = append(diags, stage.NoRows(e.block))
				}
			}
		}
	}

	return f, diags
}
