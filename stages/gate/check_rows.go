package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/rules"
	"aicplan/sink/table"
)

// rowsCheck limits the share of rows that do not meet a condition over their columns. If a column of the
// condition is null or not finite, the row is not judged.
type rowsCheck struct {
	// Condition is true for a good row, such as `rel_stdev <= 0.1`. Columns inside coalesce or try may be null.
	Condition hcl.Expression `hcl:"condition"`
	// Name identifies the check in results. The default is the condition.
	Name string `hcl:"name,optional" json:"name,omitempty"`
	// MaxShare is the largest accepted share of rows that do not meet the condition.
	MaxShare float64 `hcl:"max_share,optional" json:"max_share"`
	// Fix is printed as the next step if the check fails.
	Fix string `hcl:"fix,optional" json:"fix,omitempty"`

	text  string // of the condition
	ctx   *hcl.EvalContext
	names []string // columns that the condition names
}

// columns lists the columns that the condition needs. Those inside coalesce and try may be missing.
func (c *rowsCheck) columns() []string {
	optional := map[string]bool{}
	_ = hclsyntax.VisitAll(c.Condition.(hclsyntax.Node), func(n hclsyntax.Node) hcl.Diagnostics {
		if f, ok := n.(*hclsyntax.FunctionCallExpr); ok && (f.Name == "coalesce" || f.Name == "try") {
			for _, name := range columnNamesOf(f) {
				optional[name] = true
			}
		}
		return nil
	})

	return slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return optional[name] })
}

func (c *rowsCheck) title() string { return cmp.Or(c.Name, c.text) }

func (c *rowsCheck) prepare(bad problems) { bad.share("max_share", c.MaxShare) }

// columnNamesOf returns the columns that an expression names. Names with an attribute, such as var.limit,
// belong to the plan.
func columnNamesOf(expr hcl.Expression) []string {
	var out []string
	for _, t := range expr.Variables() {
		if name := t.RootName(); len(t) == 1 && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (c *rowsCheck) later(condition hcl.Expression) []string { return columnNamesOf(condition) }

func (c *rowsCheck) bind(text string, ctx *hcl.EvalContext) hcl.Diagnostics {
	c.text, c.ctx = text, ctx
	c.names = columnNamesOf(c.Condition)
	if len(c.names) == 0 {
		return stage.ErrorAt(c.Condition.Range(), "Condition over no column",
			"The condition names no column of the rows, such as in latency > 0.")
	}

	vars := map[string]cty.Value{}
	for _, name := range c.names {
		vars[name] = cty.DynamicVal
	}
	return tried(c.Condition, ctx, vars)
}

func (c *rowsCheck) values() native {
	return native{ctx: c.ctx, numbers: map[string][]float64{}, flags: map[string][]bool{}, valid: map[string][]bool{},
		needed: c.columns()}
}

// typed returns an error if the condition is not true or false for the types of the columns, or tests whether values
// of different types are equal. rec may lack columns.
func (c *rowsCheck) typed(rec arrow.Record) hcl.Diagnostics {
	vars := map[string]cty.Value{}
	for _, name := range c.names {
		vars[name] = cty.DynamicVal
		cell := c.values().read(rec, name)
		for row := range table.Len(rec) {
			if v, _ := cell(row); !v.IsNull() {
				vars[name] = cty.UnknownVal(v.Type())
				break
			}
		}
	}
	return tried(c.Condition, c.ctx, vars)
}

// Values returns what identifies the check, with the condition and the plan values that it uses.
func (c *rowsCheck) Values() map[string]any {
	return map[string]any{"name": c.Name, "max_share": c.MaxShare, "fix": c.Fix,
		"condition": c.text, "values": planValues(c.Condition, c.ctx, c.names)}
}

func (c *rowsCheck) run(s *subject) finding {
	if s.rec == nil {
		return finding{}
	}

	if diags := c.typed(s.rec); diags != nil {
		return failed("the condition cannot be evaluated: " + diags[0].Detail)
	}

	cells := map[string]func(int) (cty.Value, string){}
	values := c.values()
	for _, name := range c.names {
		cells[name] = values.read(s.rec, name)
	}

	var fast func(row int) float64
	if at, flag := values.compile(c.Condition.(hclsyntax.Expression)); flag {
		fast = at
	}

	out := finding{total: s.rows(), limit: "at most " + percent(c.MaxShare)}

	var bad []rules.Offence
	for i := range s.rows() {
		vars, lacking, optional := map[string]cty.Value(nil), "", ""
		for _, name := range c.names {
			v, why := cells[name](i)
			if slices.Contains(values.needed, name) || strings.HasSuffix(why, notFinite) {
				lacking = cmp.Or(lacking, why)
			} else {
				optional = cmp.Or(optional, why)
			}

			if fast == nil {
				if vars == nil {
					vars = map[string]cty.Value{}
				}
				vars[name] = v
			}
		}

		holds, why := false, lacking
		switch {
		case lacking != "":
		case fast != nil:
			v := fast(i)
			if holds = v != 0; math.IsNaN(v) {
				why = "the condition divides by zero"
			}
		default:
			var err error
			if holds, why, err = c.holds(vars, optional); err != nil {
				return failed(err.Error())
			}
		}

		if why != "" {
			out.left.row(i, why)
		} else if !holds {
			bad = append(bad, rules.Offence{Row: i})
		}
	}

	judged := s.rows() - out.left.count()
	if judged == 0 {
		return out
	}

	share := float64(len(bad)) / float64(judged)
	out.ok, out.value = share <= c.MaxShare, percent(share)
	out.message = fmt.Sprintf("%s is true for %d of %d rows", c.text, judged-len(bad), judged)
	if !out.ok {
		out.rows, out.fix = s.worst(bad, c.names...), c.Fix
	}

	return out
}

// holds evaluates the condition with HCL. why is the reason if the row cannot be judged; optional is the
// reason why a column inside coalesce has no value, "" if all have one.
func (c *rowsCheck) holds(vars map[string]cty.Value, optional string) (holds bool, why string, err error) {
	ctx := c.ctx.NewChild()
	ctx.Variables = vars

	v, diags := c.Condition.Value(ctx)
	switch {
	case optional != "" && (diags.HasErrors() || v.IsNull()):
		return false, optional, nil
	case diags.HasErrors():
		return false, "", fmt.Errorf("the condition cannot be evaluated: %s", diags[0].Detail)
	case v.IsNull():
		return false, "the condition is null", nil
	case v.Type() != cty.Bool:
		return false, "", fmt.Errorf("the condition is %s, not true or false", v.Type().FriendlyName())
	}
	return v.True(), "", nil
}

// notFinite ends the reason of a cell that is NaN or infinite.
const notFinite = " is not finite"

// read returns a function that reads a column by row as values of expressions, and notes numbers and flags
// for native evaluation. The function returns null, and the reason, for cells that are null or no finite
// number, and if the column does not exist.
func (n native) read(rec arrow.Record, name string) func(int) (cty.Value, string) {
	null := cty.NullVal(cty.DynamicPseudoType)
	at := table.Index(rec, name)
	if at < 0 {
		n.valid[name] = []bool{}
		why := missingColumn(rec, name).Error()
		return func(int) (cty.Value, string) { return null, why }
	}

	const exact = 1 << 53 // the largest integers of float64
	if flags, err := table.Bools(rec, name); err == nil {
		n.flags[name], n.valid[name] = flags.Values, flags.Valid
	} else if nums, err := table.Float64s(rec, name); err == nil {
		n.numbers[name], n.valid[name] = nums.Values, nums.Valid
	}
	ints, err := table.Int64s(rec, name)
	if err == nil && slices.ContainsFunc(ints.Values, func(v int64) bool { return v > exact || v < -exact }) {
		delete(n.numbers, name)
	}

	return func(row int) (cty.Value, string) {
		v := table.Value(rec, at, row)
		f, float := v.(float64)
		switch {
		case v == nil:
			return null, name + " is null"
		case float && (math.IsNaN(f) || math.IsInf(f, 0)):
			return null, name + notFinite
		}
		return stage.Cell(v), ""
	}
}
