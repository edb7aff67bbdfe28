package grid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// Part is a part block of the plan: axes, rows, derived values, filters and case sets that grids
// can include.
type Part struct {
	// Name is the address of the part, for example module.common.part.sm_gate. Parts with the same
	// name are the same part.
	Name string
	Body hcl.Body
	// Eval resolves values in the module that contains the part. Names of the including grid take
	// precedence.
	Eval Evaluator
	// Range is the range of the whole block.
	Range hcl.Range
}

// PartOf returns the part that the value of an expression such as part.sm_gate refers to. If the
// value is not a part, the error describes what it is.
type PartOf func(cty.Value) (*Part, error)

// inclusion is one part included at one position of a grid.
type inclusion struct {
	part *Part
	at   hcl.Range  // the element of the include list
	by   *inclusion // the part that contains the include; nil for the grid itself
}

// places returns the positions of the include and of the includes around it, innermost first.
func (i *inclusion) places() []string {
	var out []string
	for ; i != nil; i = i.by {
		out = append(out, place(i.at))
	}
	return out
}

// include adds the blocks of the listed parts to p, at the position of the attribute. A part that
// is included several times in one body, directly or through other parts, is added once.
func (d *decoder) include(p *product, a *hcl.Attribute) {
	v, _, ok := d.evaluate(a.Expr)
	if !ok || v.IsNull() {
		return
	}

	elements := []cty.Value{v}
	if t := v.Type(); v.IsKnown() && (t.IsTupleType() || t.IsListType() || t.IsSetType()) {
		elements = v.AsValueSlice()
	}

	for i, e := range elements {
		if e.IsNull() {
			continue // var.x ? part.a : null
		}
		at := elementRange(a.Expr, i)
		if d.partOf == nil {
			d.errorf(at, "Unknown part", "There are no parts here.")
			return
		}

		part, err := d.partOf(e)
		if err != nil {
			d.errorf(at, "Not a part", "include lists parts: %s.", err)
			continue
		}
		if !slices.Contains(p.included, part.Name) {
			p.included = append(p.included, part.Name)
			d.includePart(p, part, at)
		}
	}
}

func (d *decoder) includePart(p *product, part *Part, at hcl.Range) {
	in := &inclusion{part: part, at: at, by: d.in}
	d.inclusions = append(d.inclusions, in)
	eval, outer := d.eval, d.in
	d.eval, d.in = part.Eval, in
	d.fill(p, d.content(part.Body, partSchema))
	d.eval, d.in = eval, outer
}

// located sets the Subject of every diagnostic without one to the grid. For diagnostics inside a
// part it appends where the part is included.
func (s *Spec) located(diags hcl.Diagnostics) hcl.Diagnostics {
	return noteInclusions(located(diags, s.Range), s.inclusions)
}

func noteInclusions(diags hcl.Diagnostics, inclusions []*inclusion) hcl.Diagnostics {
	for _, d := range diags {
		if _, done := hcl.DiagnosticExtra[*Included](d); done {
			continue
		}
		note := &Included{Detail: d.Detail, extra: d.Extra}
		for _, i := range inclusions {
			if !contains(i.part.Range, *d.Subject) {
				continue
			}
			note.Part = i.part.Name
			if at := strings.Join(i.places(), ", itself included at "); !slices.Contains(note.Places, at) {
				note.Places = append(note.Places, at)
			}
		}

		if note.Part != "" {
			d.Extra, d.Detail = note, note.Text(note.Places)
		}
	}
	return diags
}

// contains reports whether the range inner is inside outer.
func contains(outer, inner hcl.Range) bool {
	return outer.Filename == inner.Filename && outer.Start.Byte <= inner.Start.Byte && inner.End.Byte <= outer.End.Byte
}

// Included is the Extra of a diagnostic about a block in a part. The same error is found in every
// grid that includes the part. Callers that print diagnostics can merge those with equal Detail and
// list all their places.
type Included struct {
	Detail string   // without the places
	Part   string   // address of the part
	Places []string // where it is included

	extra any
}

// UnwrapDiagnosticExtra implements hcl.DiagnosticExtraUnwrapper.
func (n *Included) UnwrapDiagnosticExtra() any { return n.extra }

// maxPlaces limits the places that one diagnostic lists.
const maxPlaces = 4

// IncludedAt returns the detail without the places, and the places.
func (n *Included) IncludedAt() (detail string, places []string) { return n.Detail, n.Places }

// Text returns the detail followed by the places at which the part is included.
func (n *Included) Text(places []string) string {
	return strings.TrimSpace(fmt.Sprintf("%s This stands in %s, included at %s.", n.Detail, n.Part,
		textutil.First(places, maxPlaces, "; ")))
}
