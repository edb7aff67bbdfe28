package grid

import (
	"github.com/hashicorp/hcl/v2"
)

// sweepBlock is a sweep block of a grid or of a part that the grid includes.
type sweepBlock struct {
	*hcl.Block
	eval Evaluator
	in   *inclusion
}

// noSweeps reports sweeps in parts that a case_set or a sweep includes.
func (d *decoder) noSweeps(p *product) {
	for _, b := range p.sweeps {
		d.errorf(b.DefRange, "Sweep inside a grid",
			"A sweep belongs to a whole grid. Include the part in the grid itself.")
	}
}

// sweep decodes the sweep blocks into one spec. Blocks with values become its axes. At most one
// block may contain a whole product with case sets; the axes then loop inside that product.
func (d *decoder) sweep(blocks []sweepBlock) *Spec {
	defer func(eval Evaluator, in *inclusion) { d.eval, d.in = eval, in }(d.eval, d.in)
	spec := &Spec{Range: blocks[0].DefRange}

	var compound *sweepBlock
	var simple []*Dim
	for _, b := range blocks {
		d.eval, d.in = b.eval, b.in
		content, diags := b.Body.Content(sweepSchema)
		switch {
		case diags.HasErrors():
			d.diags = append(d.diags, diags...)
		case content.Attributes["values"] != nil:
			d.onlyValues(content)
			if dim := d.axis(b.Block, content); dim != nil {
				dim.order = d.next()
				simple = append(simple, dim)
			}

		case compound != nil:
			d.errorf(b.DefRange, "Second compound sweep",
				"A grid has one sweep with axes and sets inside; the first is at %s. Use case_set blocks inside of it.",
				place(compound.DefRange))
		default:
			compound = &b
		}
	}

	common := &product{rng: spec.Range}
	content := &hcl.BodyContent{MissingItemRange: spec.Range}
	if compound != nil {
		d.eval, d.in = compound.eval, compound.in
		spec.Range = compound.DefRange
		content, _ = compound.Body.Content(sweepSchema)
		common = d.product(content, "")
		common.rng = compound.DefRange
		d.noSweeps(common)
	}

	common.axes = append(common.axes, simple...)
	d.assemble(spec, common)
	d.columns(spec, content, common)

	for _, dim := range simple {
		spec.Columns = union(spec.Columns, dim.Name)
	}
	d.distinct(spec, content.Blocks)
	return spec
}

// onlyValues reports what a sweep with values cannot have.
func (d *decoder) onlyValues(content *hcl.BodyContent) {
	for _, inner := range content.Blocks {
		d.errorf(inner.DefRange, "Values and blocks",
			"A sweep has either values, or axis, rows, derive, filter and case_set blocks.")
	}

	for _, name := range []string{"columns", "loop_order", "include"} {
		if a := content.Attributes[name]; a != nil {
			d.errorf(a.NameRange, "Unused attribute", "%s belongs to a sweep with blocks inside.", name)
		}
	}
}
