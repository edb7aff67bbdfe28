package grid

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// axis decodes an axis, or a sweep with values.
func (d *decoder) axis(b *hcl.Block, content *hcl.BodyContent) *Dim {
	name := b.Labels[0]
	d.checkName(name, b.LabelRanges[0], "name")
	dim := &Dim{Name: name, Fields: []string{name}, Range: b.DefRange}
	list, expr := d.list(content)
	if expr == nil {
		return nil
	}

	vals := list.AsValueSlice()
	for i, v := range vals {
		if !v.IsNull() && !v.Type().IsPrimitiveType() {
			d.errorf(elementRange(expr, i), "Wrong type",
				"%s %q takes numbers, strings or bools; value %d is %s. Values that belong together are rows.",
				capital(b.Type), name, i+1, v.Type().FriendlyName())
			return nil
		}
	}

	vals, ok := d.column(name, vals, expr)
	if !ok {
		return nil
	}

	dim.Values, dim.static = [][]cty.Value{vals}, len(expr.Variables()) == 0
	d.noteEmpty(dim, expr.Range())
	d.noteRepeated(dim, expr)
	return dim
}

// noteRepeated warns about a value that is written twice in a literal list, because it produces
// only one case. Lists computed by expressions may contain repeated values.
func (d *decoder) noteRepeated(dim *Dim, expr hcl.Expression) {
	if _, written := expr.(*hclsyntax.TupleConsExpr); !written {
		return
	}
	seen := map[string]bool{}
	for i, v := range dim.Values[0] {
		if v.IsNull() {
			continue
		}
		text := exactKey(v)
		if seen[text] {
			d.diags = append(d.diags, warnAt(elementRange(expr, i), "Repeated value",
				"Axis %q has the value %s twice; it counts once.", dim.Name, display(v)))
		}

		seen[text] = true
	}
}

func (d *decoder) rows(b *hcl.Block) *Dim {
	dim := &Dim{Name: b.Labels[0], Rows: true, Range: b.DefRange}
	list, expr := d.list(d.content(b.Body, axisSchema))
	if expr == nil {
		return nil
	}

	rows := list.AsValueSlice()
	dim.static = len(expr.Variables()) == 0
	for i, r := range rows {
		if r.IsNull() || (!r.Type().IsObjectType() && !r.Type().IsMapType()) {
			d.errorf(elementRange(expr, i), "Wrong type",
				"Rows %q takes objects, { field = value, ... }; row %d is %s.", dim.Name, i+1, friendly(r))
			return nil
		}
	}

	if len(rows) == 0 {
		return d.noRows(dim, list.Type(), expr.Range())
	}

	dim.Fields = objectOrder(firstElement(expr), rows[0].AsValueMap())
	if len(dim.Fields) == 0 {
		d.errorf(elementRange(expr, 0), "Empty row", "The first row of %q has no field; a row needs at least one.",
			dim.Name)
		return nil
	}

	for _, f := range dim.Fields {
		d.checkName(f, elementRange(expr, 0), "field name")
	}

	byField := make([][]cty.Value, len(dim.Fields))
	for i, r := range rows {
		m := r.AsValueMap()
		for name := range m {
			if !slices.Contains(dim.Fields, name) {
				d.errorf(
					elementRange(expr, i),
					"Inconsistent rows",
					"Row %d of %q has a field %q that row 1 has not; every row needs the same fields, with null for those that "+
						"do not apply.%s",
					i+1,
					dim.Name,
					name,
					textutil.DidYouMean(name, dim.Fields),
				)
				return nil
			}
		}

		for f, name := range dim.Fields {
			v, ok := m[name]
			if !ok {
				d.errorf(elementRange(expr, i), "Inconsistent rows",
					"Row %d of %q has no field %q; every row needs the same fields, with null for those that do not apply.",
					i+1, dim.Name, name)
				return nil
			}
			byField[f] = append(byField[f], v)
		}
	}

	for f, name := range dim.Fields {
		vals, ok := d.column(name, byField[f], expr)
		if !ok {
			return nil
		}
		byField[f] = vals
	}

	dim.Values = byField
	return dim
}

// noRows handles a rows block with an empty list. If the list is typed, as that of a variable, the
// field names are known and the block has no entries. Otherwise it is an error, because the grid's
// expressions could not be checked.
func (d *decoder) noRows(dim *Dim, t cty.Type, rng hcl.Range) *Dim {
	if (!t.IsListType() && !t.IsSetType()) || !t.ElementType().IsObjectType() {
		d.errorf(rng, "Empty rows",
			"Rows %q has no row, so its fields are not known. To leave cases out, keep the rows and add a filter.",
			dim.Name)
		return nil
	}
	dim.Fields = slices.Sorted(maps.Keys(t.ElementType().AttributeTypes()))
	for _, f := range dim.Fields {
		d.checkName(f, rng, "field name")
		dim.types = append(dim.types, t.ElementType().AttributeType(f))
	}

	dim.Values = make([][]cty.Value, len(dim.Fields))
	d.noteEmpty(dim, rng)
	return dim
}

func (d *decoder) noteEmpty(dim *Dim, rng hcl.Range) {
	if dim.Size() > 0 {
		return
	}
	what := "Axis"
	if dim.Rows {
		what = "Rows"
	}

	d.diags = append(d.diags, warnAt(rng, "Empty "+strings.ToLower(what),
		"%s %q has no values, so nothing that it takes part in has any cases.", what, dim.Name))
}

// column converts the values of one name to one common type.
func (d *decoder) column(name string, vals []cty.Value, expr hcl.Expression) ([]cty.Value, bool) {
	for i, v := range vals {
		if !v.IsNull() && v.Type() == cty.Number && !finite(v) {
			d.errorf(elementRange(expr, i), "Number out of range", "Value %d of %q is not a finite number.", i+1, name)
			return nil, false
		}
	}
	out, err := unifyColumn(vals)
	if err != nil {
		d.errorf(expr.Range(), "Mixed types", "The values of %q must have one type: %s.", name, err)
		return nil, false
	}

	return out, true
}

// list evaluates the values of an axis or of rows: a list, tuple or set. The expression is nil if there are none.
func (d *decoder) list(content *hcl.BodyContent) (cty.Value, hcl.Expression) {
	a := content.Attributes["values"]
	if a == nil {
		return cty.NilVal, nil
	}
	v, ok := d.value(a.Expr)
	if !ok {
		return v, nil
	}
	t := v.Type()
	if v.IsNull() || (!t.IsListType() && !t.IsTupleType() && !t.IsSetType()) {
		d.errorf(a.Expr.Range(), "Wrong type", "values must be a list, not %s.", friendly(v))
		return v, nil
	}

	return v, a.Expr
}

func friendly(v cty.Value) string {
	if v.IsNull() {
		return "null"
	}
	return v.Type().FriendlyName()
}

// objectOrder returns the attribute names of an object: first those of an object literal in source
// order, then the others sorted.
func objectOrder(expr hcl.Expression, vals map[string]cty.Value) []string {
	var out []string
	if obj, ok := expr.(*hclsyntax.ObjectConsExpr); ok {
		for _, it := range obj.Items {
			name := hcl.ExprAsKeyword(it.KeyExpr)
			if _, have := vals[name]; have {
				out = union(out, name)
			}
		}
	}

	return union(out, slices.Sorted(maps.Keys(vals))...)
}

func firstElement(expr hcl.Expression) hcl.Expression {
	if exprs, diags := hcl.ExprList(expr); !diags.HasErrors() && len(exprs) > 0 {
		return exprs[0]
	}
	return expr
}
