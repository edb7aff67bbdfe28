package grid

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// evaluate evaluates an expression that must not use the grid's own names.
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

	return v, ctx, true
}

// value is like evaluate but fails if the value is not known at plan time.
func (d *decoder) value(expr hcl.Expression) (cty.Value, bool) {
	v, ctx, ok := d.evaluate(expr)
	if !ok {
		return v, false
	}

	if !v.IsWhollyKnown() {
		d.diags = append(d.diags, &hcl.Diagnostic{
			Severity: hcl.DiagError,
			Summary:  "Value not known at plan time",
			Detail: "A grid is expanded when the plan is made, so everything in it must be known then. This depends on " +
				"the result of a stage that has not run.",
			Subject:     expr.Range().Ptr(),
			Expression:  expr,
			EvalContext: ctx,
		})
		return cty.NilVal, false
	}

	return v, true
}

// str evaluates an optional string attribute. It returns "" if the attribute is absent or null.
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

// names evaluates a list of names and returns each with its source range.
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
	for _, e := range list.Elements() {
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

// place formats a range as "file:line".
func place(r hcl.Range) string { return fmt.Sprintf("%s:%d", r.Filename, r.Start.Line) }

// elementRange returns the range of the i-th element of a literal list, or of the whole expression
// if it is not a literal list.
func elementRange(expr hcl.Expression, i int) hcl.Range {
	if exprs, diags := hcl.ExprList(expr); !diags.HasErrors() && i < len(exprs) {
		return exprs[i].Range()
	}
	return expr.Range()
}

// itemRange returns the range of one item of a literal object, or of the whole expression if it is
// not found there.
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
