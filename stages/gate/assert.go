package gate

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// columnAggregates lists the aggregates of a column, as in min.latency.
var columnAggregates = strings.Fields("min max mean sum stdev median p1 p5 p10 p25 p75 p90 p95 p99 distinct nulls")

// rowCount is the aggregate of the dataset: its number of rows.
const rowCount = "count"

// assertion is an assert block: a condition over aggregates that is evaluated when the gate runs.
type assertion struct {
	// Condition is over aggregates of the table, such as `min.latency > 0`.
	Condition hcl.Expression `hcl:"condition"`
	// Message is printed if the condition is false.
	Message string `hcl:"message,optional"`

	text string // of the condition
	ctx  *hcl.EvalContext
}

// aggregateNames lists the names in a condition that get their values when the gate runs.
func aggregateNames() []string { return append(slices.Clone(columnAggregates), rowCount) }

func (a *assertion) later(hcl.Expression) []string { return aggregateNames() }

func (a *assertion) bind(text string, ctx *hcl.EvalContext) (diags hcl.Diagnostics) {
	a.text, a.ctx = text, ctx
	used := false
	for _, t := range a.Condition.Variables() {
		root := t.RootName()
		switch {
		case root == rowCount:
			used = true
			if len(t) > 1 {
				stage.AddError(&diags, t.SourceRange(), "Wrong aggregate",
					"count is one number; it has no columns.")
			}

		case slices.Contains(columnAggregates, root):
			used = true
			if _, ok := columnOf(t); !ok {
				stage.AddError(&diags, t.SourceRange(), "Wrong aggregate",
					"Write %s.COLUMN, for example %s.latency.", root, root)
			}

		default:
			if v, d := t.TraverseAbs(ctx); !d.HasErrors() && !stage.IsRef(v) && !v.IsWhollyKnown() {
				stage.AddError(&diags, t.SourceRange(), "Value not known at plan time",
					"%s is known only after its stage ran, and a gate's limits before.", stage.TraversalText(t))
			}
		}
	}

	if !used && !diags.HasErrors() {
		stage.AddError(&diags, a.Condition.Range(), "Condition without data",
			"The condition names no aggregate. There are count, and for a column %s.",
			strings.Join(columnAggregates, ", "))
	}

	if diags.HasErrors() {
		return diags
	}

	vars := map[string]cty.Value{rowCount: cty.UnknownVal(cty.Number)}
	for _, name := range columnAggregates {
		vars[name] = cty.UnknownVal(cty.Map(cty.Number))
	}
	return tried(a.Condition, ctx, vars)
}

// tried evaluates a condition with unknown variables, so that expressions that can never be a condition are found
// while the plan is read.
func tried(condition hcl.Expression, ctx *hcl.EvalContext, vars map[string]cty.Value) hcl.Diagnostics {
	ctx = ctx.NewChild()
	ctx.Variables = vars

	v, diags := condition.Value(ctx)
	if !diags.HasErrors() && v.Type() != cty.Bool && v.Type() != cty.DynamicPseudoType {
		diags = stage.ErrorAt(condition.Range(), "Not a condition",
			"The condition is a %s, not true or false; compare it with a limit.", v.Type().FriendlyName())
	}
	return append(diags, stage.Unequal(condition, ctx)...)
}

func columnOf(t hcl.Traversal) (string, bool) {
	if len(t) != 2 {
		return "", false
	}
	step, ok := t[1].(hcl.TraverseAttr)
	return step.Name, ok
}

// Values implements stage.Valuer. The condition is normalized, so that layout and comments do not change
// the cache key. Plan values that the condition uses are included.
func (a *assertion) Values() map[string]any {
	return map[string]any{"condition": a.text, "message": a.Message,
		"values": planValues(a.Condition, a.ctx, aggregateNames())}
}

// planValues returns the values of the plan that an expression uses, by their text. Names that get their
// values when the gate runs are left out.
func planValues(expr hcl.Expression, ctx *hcl.EvalContext, later []string) map[string]any {
	values := map[string]any{}
	for _, t := range expr.Variables() {
		if slices.Contains(later, t.RootName()) {
			continue
		}

		name := stage.TraversalText(t)
		v, d := t.TraverseAbs(ctx)
		if d.HasErrors() {
			values[name] = "unknown"
			continue
		}

		values[name] = stage.Plain(v)
	}

	return values
}

func (a *assertion) run(s *subject) finding {
	// A condition over counts judges the data as a whole. For other column aggregates, rows without a
	// number are unjudged: those of the column that has the most.
	out := finding{total: s.rows(), definite: true, limit: a.text}
	var used []string
	use := func(name string, v float64) cty.Value {
		if text := name + " = " + number(v); !slices.Contains(used, text) {
			used = append(used, text)
		}
		return stage.Number(v)
	}

	ctx := a.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{}
	columns := map[string]map[string]cty.Value{}
	for _, t := range a.Condition.Variables() {
		root := t.RootName()
		name, ok := columnOf(t)
		switch {
		case root == rowCount:
			ctx.Variables[root] = use(root, float64(s.rows()))

		case ok && slices.Contains(columnAggregates, root):
			v, left, err := s.aggregate(root, name)
			if err != nil {
				return s.cannot(fmt.Sprintf("there is no %s.%s: %v", root, name, err))
			}

			if !slices.Contains(countingAggregates, root) {
				if out.definite = false; left.count() > out.left.count() {
					out.left = left
				}
			}

			if columns[root] == nil {
				columns[root] = map[string]cty.Value{}
			}
			columns[root][name] = use(root+"."+name, v)
			ctx.Variables[root] = cty.ObjectVal(columns[root])
		}
	}

	v, diags := a.Condition.Value(ctx)
	if diags.HasErrors() {
		return failed("the condition cannot be evaluated: " + diags[0].Detail)
	}

	if v.IsNull() || !v.IsKnown() || v.Type() != cty.Bool {
		return failed(fmt.Sprintf("the condition is %s, not true or false", v.Type().FriendlyName()))
	}

	out.ok, out.value = v.True(), strings.Join(used, ", ")
	if out.message = "is true: " + out.value; !out.ok {
		out.message = cmp.Or(a.Message, "is not true") + " (" + out.value + ")"
	}
	return out
}

// oneLine returns the text of an expression on one line, without comments and spaced as fmt does it, so that equal
// conditions have equal text.
func oneLine(text string) string {
	tokens, _ := hclsyntax.LexExpression([]byte(text), "", hcl.InitialPos)
	var b bytes.Buffer
	end := 0
	for _, t := range tokens {
		if t.Type == hclsyntax.TokenComment || t.Type == hclsyntax.TokenNewline {
			continue
		}
		if t.Range.Start.Byte > end {
			b.WriteByte(' ')
		}
		b.Write(t.Bytes)
		end = t.Range.End.Byte
	}
	return string(hclwrite.Format(b.Bytes()))
}
