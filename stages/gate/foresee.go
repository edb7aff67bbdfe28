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
	for _, t := range a.Condition.Variables() {
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

	diags := c.cannotFail(func(r *stage.Ref) bool { return f != nil && in(r) == f },
		"%[2]s, the input of the gate, with %[1]s, which has the same rows")
	for _, e := range c.entries {
		if n, ok := e.check.(columnar); ok && e.minJudged > 0 {
			diags = append(diags, stage.MissingColumns(f, n.columns(), e.block)...)
		}

		if c, ok := e.check.(*rowsCheck); ok && f != nil && f.Rows != nil {
			diags = append(diags, c.typed(f.Rows)...)
		}

		for _, ref := range e.refs() {
			if other := in(ref); other != nil && other.Cases {
				diags = append(diags, stage.NoRows(e.block))
			}
		}
	}

	return f, diags
}
