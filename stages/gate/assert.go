package gate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// columnAggregates lists the aggregates of a column, as in min.latency.
var columnAggregates = []string{
	"min", "max", "mean", "sum", "stdev", "median",
	"p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99",
	"distinct", "nulls",
}

// tableAggregates lists the aggregates of the dataset.
var tableAggregates = []string{"count", "planned", "measured", "failed", "skipped", "coverage"}

// assertion is an assert block: a condition over aggregates that is evaluated when the gate runs.
type assertion struct {
	condition hcl.Expression
	message   string
	ctx       *hcl.EvalContext
}

// assertAttributes are the attributes of an assert block in addition to commonAttributes.
var assertAttributes = []hcl.AttributeSchema{
	// condition (expression, required) is over aggregates of the table, such as `min.latency > 0`.
	{Name: "condition", Required: true},
	// message is printed if the condition is false.
	{Name: "message"},
}

func aggregateNames() map[string]bool {
	bound := map[string]bool{}
	for _, n := range slices.Concat(columnAggregates, tableAggregates) {
		bound[n] = true
	}
	return bound
}

func decodeAssert(b *hcl.Block, eval stage.Evaluator) (entry, hcl.Diagnostics) {
	e := newEntry(b.Labels[0], "assert", b)
	rest, ctx, diags := e.common(b, eval, aggregateNames())
	if diags.HasErrors() {
		return e, diags
	}

	content, d := rest.Content(&hcl.BodySchema{Attributes: assertAttributes})
	if diags = append(diags, d...); diags.HasErrors() {
		return e, diags
	}

	a := &assertion{condition: content.Attributes["condition"].Expr, ctx: ctx}
	if m, ok := content.Attributes["message"]; ok {
		diags = append(diags, gohcl.DecodeExpression(m.Expr, ctx, &a.message)...)
	}

	used := false
	for _, t := range a.condition.Variables() {
		root := t.RootName()
		switch {
		case slices.Contains(tableAggregates, root):
			used = true
			if len(t) > 1 {
				diags = append(diags, problem("Wrong aggregate", fmt.Sprintf("%s is one number; it has no columns.", root),
					t.SourceRange()))
			}

		case slices.Contains(columnAggregates, root):
			used = true
			if _, ok := columnOf(t); !ok {
				diags = append(diags, problem("Wrong aggregate",
					fmt.Sprintf("Write %s.COLUMN, for example %s.latency.", root, root), t.SourceRange()))
			}

		default:
			if v, d := t.TraverseAbs(ctx); !d.HasErrors() && !stage.IsRef(v) && !v.IsWhollyKnown() {
				diags = append(diags, problem("Value not known at plan time",
					fmt.Sprintf("%s is known only after its stage ran, and a gate's limits before; the gate's own data has the aggregates %s.",
						traversalText(t), strings.Join(tableAggregates, ", ")), t.SourceRange()))
			}
		}
	}

	if !used && !diags.HasErrors() {
		diags = append(diags, problem("Condition without data",
			fmt.Sprintf("The condition names no aggregate. There are %s, and for a column %s.",
				strings.Join(tableAggregates, ", "), strings.Join(columnAggregates, ", ")), a.condition.Range()))
	}

	if !diags.HasErrors() {
		diags = append(diags, a.tried()...)
	}

	e.check = a
	return e, diags
}

// tried evaluates the condition with unknown numbers for all aggregates. It finds expressions that can
// never be a condition while the plan is read.
func (a *assertion) tried() hcl.Diagnostics {
	number := cty.UnknownVal(cty.Number)
	ctx := a.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{}

	columns := map[string]map[string]cty.Value{}
	for _, t := range a.condition.Variables() {
		root := t.RootName()
		if slices.Contains(tableAggregates, root) {
			ctx.Variables[root] = number
		} else if name, ok := columnOf(t); ok && slices.Contains(columnAggregates, root) {
			if columns[root] == nil {
				columns[root] = map[string]cty.Value{}
			}
			columns[root][name] = number
			ctx.Variables[root] = cty.ObjectVal(columns[root])
		}
	}

	v, diags := a.condition.Value(ctx)
	if diags.HasErrors() {
		return diags
	}

	if v.Type() != cty.Bool && v.Type() != cty.DynamicPseudoType {
		return hcl.Diagnostics{problem("Not a condition",
			fmt.Sprintf("The condition is a %s, not true or false; compare it with a limit.", v.Type().FriendlyName()),
			a.condition.Range())}
	}

	return nil
}

func columnOf(t hcl.Traversal) (string, bool) {
	if len(t) != 2 {
		return "", false
	}

	switch step := t[1].(type) {
	case hcl.TraverseAttr:
		return step.Name, true
	case hcl.TraverseIndex:
		if step.Key.Type() == cty.String {
			return step.Key.AsString(), true
		}
	}

	return "", false
}

func (a *assertion) prepare(hcl.Range) hcl.Diagnostics { return nil }

// Values implements stage.Valuer. The condition is normalized, so that layout and comments do not change
// the cache key. Plan values that the condition uses are included.
func (a *assertion) Values() map[string]any {
	names := append(slices.Clone(columnAggregates), tableAggregates...)
	return map[string]any{"condition": expressionText(a.condition), "message": a.message,
		"values": planValues(a.condition, a.ctx, names)}
}

// planValues returns the values of the plan that an expression uses, by their text. Names that get their
// values when the gate runs are left out.
func planValues(expr hcl.Expression, ctx *hcl.EvalContext, later []string) map[string]any {
	values := map[string]any{}
	for _, t := range expr.Variables() {
		if slices.Contains(later, t.RootName()) {
			continue
		}

		name := traversalText(t)
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
	ctx := a.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{}
	columns := map[string]map[string]cty.Value{}

	// A condition over counts judges the data as a whole. For other column aggregates, rows without a
	// number are unjudged.
	out := finding{total: s.selected, definite: true, limit: expressionText(a.condition)}
	read := map[string]*leftover{}

	var used []string
	for _, t := range a.condition.Variables() {
		root := t.RootName()
		name, ok := columnOf(t)
		switch {
		case slices.Contains(tableAggregates, root):
			v, err := s.tableAggregate(root)
			if err != nil {
				return failed(err.Error())
			}

			if math.IsNaN(v) {
				return s.cannot(fmt.Sprintf("%q is unknown: the data has no planned cases", root))
			}

			ctx.Variables[root] = cty.NumberFloatVal(v)
			used = appendOnce(used, fmt.Sprintf("%s = %s", root, number(v)))

		case ok && slices.Contains(columnAggregates, root):
			var left leftover
			v, err := s.columnAggregate(root, name, &left)
			if err != nil {
				return s.cannot(fmt.Sprintf("there is no %s.%s: %v", root, name, err))
			}

			if root != "distinct" && root != "nulls" {
				out.definite, read[name] = false, &left
			}

			if columns[root] == nil {
				columns[root] = map[string]cty.Value{}
			}

			columns[root][name] = exact(v)
			used = appendOnce(used, fmt.Sprintf("%s.%s = %s", root, name, number(v)))
		}
	}

	out.left = mostLeft(read)

	for root, obj := range columns {
		ctx.Variables[root] = cty.ObjectVal(obj)
	}

	v, diags := a.condition.Value(ctx)
	if diags.HasErrors() {
		return failed("the condition cannot be evaluated: " + diags[0].Detail)
	}

	if v.IsNull() || !v.IsKnown() || v.Type() != cty.Bool {
		return failed(fmt.Sprintf("the condition is %s, not true or false", v.Type().FriendlyName()))
	}

	values := strings.Join(used, ", ")
	out.ok, out.value = v.True(), values
	if out.ok {
		out.message = "holds: " + values
	} else {
		out.message = cmp.Or(a.message, "does not hold") + " (" + values + ")"
	}

	return out
}

// mostLeft returns the leftover of the column with the most unjudged rows.
func mostLeft(read map[string]*leftover) leftover {
	var most leftover
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if l := read[name]; l.count() > most.count() {
			most = *l
		}
	}
	return most
}

func appendOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// exact converts v by way of its shortest decimal text, so that a measured 0.1 equals the literal 0.1 of
// a plan. NaN becomes null.
func exact(v float64) cty.Value {
	if math.IsNaN(v) {
		return cty.NullVal(cty.Number)
	}

	if math.IsInf(v, 0) {
		return cty.NumberFloatVal(v)
	}

	n, err := cty.ParseNumberVal(strconv.FormatFloat(v, 'g', -1, 64))
	if err != nil {
		return cty.NumberFloatVal(v)
	}
	return n
}

func traversalText(t hcl.Traversal) string {
	var sb strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			sb.WriteString(s.Name)
		case hcl.TraverseAttr:
			sb.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			fmt.Fprintf(&sb, "[%#v]", s.Key)
		}
	}

	return sb.String()
}

// expressionText returns a normalized form of an expression. Equal expressions have equal text
// regardless of spacing.
func expressionText(e hcl.Expression) string {
	node, ok := e.(hclsyntax.Expression)
	if !ok {
		return e.Range().String()
	}
	return nodeText(node)
}
