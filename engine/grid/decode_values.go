package grid

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// evaluate evaluates an expression that may not use the grid's own names. The
// value is free of marks.
func (d *decoder) evaluate(expr hcl.Expression) (cty.Value, *hcl.EvalContext, bool) {
	ctx, diags := d.eval.Context([]hcl.Expression{expr}, nil)
	d.diags = append(d.diags, located(diags, expr.Range())...)
	if diags.HasErrors() {
		return cty.NilVal, nil, false
	}
	v, diags := expr.Value(ctx)
	d.diags = append(d.diags, located(diags, expr.Range())...)
	if diags.HasErrors() {
		return cty.NilVal, nil, false
	}
	v, _ = v.UnmarkDeep()
	return v, ctx, true
}

// value is evaluate for values that must be known when the plan is made.
func (d *decoder) value(expr hcl.Expression) (cty.Value, bool) {
	v, ctx, ok := d.evaluate(expr)
	if !ok {
		return v, false
	}
	if !v.IsWhollyKnown() {
		d.diags = append(d.diags, &hcl.Diagnostic{
			Severity: hcl.DiagError, Summary: "Value not known at plan time",
			Detail:  "A grid is expanded when the plan is made, so everything in it must be known then. This depends on the result of a stage that has not run.",
			Subject: expr.Range().Ptr(), Expression: expr, EvalContext: ctx,
		})
		return cty.NilVal, false
	}
	return v, true
}

// str evaluates an optional string attribute; null counts as absent.
func (d *decoder) str(a *hcl.Attribute) string {
	if a == nil {
		return ""
	}
	v, ok := d.value(a.Expr)
	if !ok || v.IsNull() {
		return ""
	}
	if v.Type() != cty.String {
		d.errorf(a.Expr.Range(), "Wrong type", "%s must be a string, not %s.", a.Name, v.Type().FriendlyName())
		return ""
	}
	return v.AsString()
}

// names evaluates a list of names, with the place of each.
func (d *decoder) names(a *hcl.Attribute) ([]string, []hcl.Range) {
	v, ok := d.value(a.Expr)
	if !ok || v.IsNull() {
		return nil, nil
	}
	list, err := convert.Convert(v, cty.List(cty.String))
	if err != nil {
		d.errorf(a.Expr.Range(), "Wrong type", "%s must be a list of names.", a.Name)
		return nil, nil
	}
	var out []string
	var ranges []hcl.Range
	for it := list.ElementIterator(); it.Next(); {
		_, e := it.Element()
		rng := elementRange(a.Expr, len(out))
		if e.IsNull() {
			d.errorf(rng, "Wrong type", "A name must not be null.")
			continue
		}
		out = append(out, e.AsString())
		ranges = append(ranges, rng)
	}
	return out, ranges
}

// place is "file:line" for messages.
func place(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

// elementRange is the place of the i-th element of a literal list, or of the
// whole expression.
func elementRange(expr hcl.Expression, i int) hcl.Range {
	if exprs, diags := hcl.ExprList(expr); !diags.HasErrors() && i < len(exprs) {
		return exprs[i].Range()
	}
	return expr.Range()
}

// itemRange is the place of one item of a literal object.
func itemRange(expr hcl.Expression, name string) hcl.Range {
	if obj, ok := expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, it := range obj.Items {
			if hcl.ExprAsKeyword(it.KeyExpr) == name {
				return hcl.RangeBetween(it.KeyExpr.Range(), it.ValueExpr.Range())
			}
		}
	}
	return expr.Range()
}
