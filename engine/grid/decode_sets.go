package grid

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// assemble builds the sets of a spec from its common blocks and its case sets.
func (d *decoder) assemble(spec *Spec, common *product) {
	sets := common.sets
	if len(sets) == 0 {
		sets = []*product{{rng: common.rng}}
		if len(common.rows)+len(common.axes) == 0 && !d.diags.HasErrors() {
			d.errorf(spec.Range, "Grid without axes", "A grid needs at least one axis, rows or case_set block.")
		}
	}

	for _, p := range sets {
		set := &Set{Name: p.name, Range: p.rng, Dims: slices.Concat(p.rows, common.rows, p.axes, common.axes),
			Derives: slices.Concat(p.derives, common.derives), Filters: slices.Concat(p.filters, common.filters)}
		d.uniqueNames(set)
		d.reorder(set, common, p)
		spec.Sets = append(spec.Sets, set)
	}

	d.checkLoopOrder(common, spec.Sets...)
	d.orderFilters(spec)
}

// uniqueNames reports names that are bound twice and filters with the same name.
func (d *decoder) uniqueNames(set *Set) {
	seen := map[string]hcl.Range{}
	reported := map[hcl.Range]bool{}

	bind := func(name string, rng hcl.Range, what string) {
		if old, dup := seen[what+name]; dup && !reported[rng] {
			reported[rng] = true
			d.errorf(rng, "Duplicate name", "%q is bound at %s already; in %s every name has one meaning.", name,
				place(old), set.label())
			return
		}
		seen[what+name] = rng
	}

	for _, dim := range set.Dims {
		for _, f := range dim.Fields {
			bind(f, dim.Range, "")
		}
		bind(dim.Name, dim.Range, "loop ")
	}

	for _, v := range set.Derives {
		bind(v.Name, v.Range, "")
	}

	for _, f := range set.Filters {
		bind(f.Name, f.Range, "filter ")
	}
}

// reorder applies loop_order: the listed loops become the outermost ones in the listed order, and
// the others follow in their default order. The loop_order of a case_set replaces that of the grid.
func (d *decoder) reorder(set *Set, common, own *product) {
	d.checkLoopOrder(own, set)
	order := common.loopOrder
	if own.loopOrder != nil {
		order = own.loopOrder
	}

	var first []*Dim
	for _, name := range order {
		if dim := set.dim(name); dim != nil {
			first = union(first, dim)
		}
	}

	set.Dims = union(first, set.Dims...)
}

// checkLoopOrder reports names in a loop_order that are not a loop of any set.
func (d *decoder) checkLoopOrder(p *product, sets ...*Set) {
	var have []string
	for _, s := range sets {
		for _, dim := range s.Dims {
			have = union(have, dim.Name)
		}
	}

	for i, name := range p.loopOrder {
		if !slices.Contains(have, name) {
			d.errorf(p.loopRanges[i], "Unknown loop", "loop_order lists axis and rows blocks; there is no %q (have %s).%s",
				name, quoted(have), textutil.DidYouMean(name, have))
		}
	}
}

// orderFilters collects the filters of all sets in source order and numbers them. A combination
// that several filters drop is charged to the first of them.
func (d *decoder) orderFilters(spec *Spec) {
	for _, set := range spec.Sets {
		spec.filters = union(spec.filters, set.Filters...)
	}
	slices.SortStableFunc(spec.filters, func(a, b *Filter) int { return a.order - b.order })
	for i, f := range spec.filters {
		f.order = i
	}

	for _, set := range spec.Sets {
		slices.SortStableFunc(set.Filters, func(a, b *Filter) int { return a.order - b.order })
	}
}

// columns decodes the projection. By default a case has all names in source order.
func (d *decoder) columns(spec *Spec, content *hcl.BodyContent, common *product) {
	var ranges []hcl.Range
	a := content.Attributes["columns"]
	if a == nil {
		spec.Columns = sourceOrder(common)
	} else {
		spec.Columns, ranges = d.names(a)
	}

	d.boundEverywhere(spec, spec.Columns, ranges, "columns")
	for i := range ranges {
		if c := spec.Columns[i]; slices.Contains(spec.Columns[:i], c) {
			d.errorf(ranges[i], "Duplicate column", "The column %q is listed twice.", c)
		}
	}

	if a != nil && len(spec.Columns) == 0 && !d.diags.HasErrors() {
		d.errorf(a.Expr.Range(), "No columns", "A case needs at least one column.")
	}
}

// boundEverywhere reports names that are not bound in every set.
func (d *decoder) boundEverywhere(spec *Spec, names []string, ranges []hcl.Range, attr string) {
	if d.diags.HasErrors() {
		return // names may be missing because their block is invalid
	}

	for i, name := range names {
		var missing []*Set
		for _, set := range spec.Sets {
			if !slices.Contains(set.names(), name) {
				missing = append(missing, set)
			}
		}

		if len(missing) == 0 {
			continue
		}

		rng := missing[0].Range
		if i < len(ranges) {
			rng = ranges[i]
		}
		if len(missing) == len(spec.Sets) {
			d.errorf(rng, "Unknown name", "%s names %q, which no axis, rows field or derive block binds.%s", attr, name,
				textutil.DidYouMean(name, spec.allNames()))
			continue
		}

		d.errorf(
			rng,
			"Column without a value",
			"%q has no value in %s. Every set must bind all columns: add derive %q { value = null } there, or list the wanted "+
				"columns in the grid's columns.",
			name,
			missing[0].label(),
			name,
		)
	}
}

// allNames returns the names that the sets bind, without duplicates.
func (s *Spec) allNames() []string {
	var out []string
	for _, set := range s.Sets {
		out = union(out, set.names()...)
	}

	return out
}

// sourceOrder returns the bound names of a body in source order, without repetition. It omits rows fields with values
// that are not primitive, because those are helpers.
func sourceOrder(common *product) []string {
	type item struct {
		order int
		names []string
	}
	var items []item

	for _, p := range append([]*product{common}, common.sets...) {
		for _, dim := range slices.Concat(p.rows, p.axes) {
			items = append(items, item{dim.order, dim.primitiveFields()})
		}
		for _, v := range p.derives {
			items = append(items, item{v.order, []string{v.Name}})
		}
	}
	slices.SortStableFunc(items, func(a, b item) int { return a.order - b.order })
	var out []string
	for _, it := range items {
		out = union(out, it.names...)
	}

	return out
}

func (d *Dim) primitiveFields() []string {
	var out []string
	for i, f := range d.Fields {
		structure := func(v cty.Value) bool { return !v.IsNull() && !v.Type().IsPrimitiveType() }
		if !slices.ContainsFunc(d.Values[i], structure) {
			out = append(out, f)
		}
	}

	return out
}
