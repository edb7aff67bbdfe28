package grid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Part is a part block of the plan: axes, rows, derived values, filters and
// case sets that grids include.
type Part struct {
	// Name is the part's address, such as module.common.part.sm_gate. Parts with
	// the same name are the same part.
	Name string
	Body hcl.Body
	// Eval gives the values of the module that the part stands in. Names of the
	// including grid come first.
	Eval Evaluator
	// Range is the whole block.
	Range hcl.Range
}

// PartOf takes the part out of the value of an expression such as
// part.sm_gate. An error says what the value is instead.
type PartOf func(cty.Value) (*Part, error)

// inclusion is one part at one place of a grid.
type inclusion struct {
	part *Part
	at   hcl.Range  // the element of the include
	by   *inclusion // the part that the include stands in; nil for the grid itself
}

// places are the include and those around it, innermost first.
func (i *inclusion) places() []string {
	var out []string
	for ; i != nil; i = i.by {
		out = append(out, place(i.at))
	}
	return out
}

// String is the way from the part to the grid: "a.hcl:3, itself included at
// b.hcl:7".
func (i *inclusion) String() string { return strings.Join(i.places(), ", itself included at ") }

// include adds the blocks of the named parts to p, as if they stood in the
// place of the attribute. Within one body a part counts once, however many of
// the others include it too.
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
	content, diags := part.Body.Content(partSchema)
	d.diags = append(d.diags, diags...)
	eval, outer := d.eval, d.in
	d.eval, d.in = part.Eval, in
	d.str(content.Attributes["description"])
	d.fill(p, content)
	d.eval, d.in = eval, outer
}

// located gives every diagnostic without a place that of the grid, and notes on
// those inside a part where the part is included.
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
			if at := i.String(); !slices.Contains(note.Places, at) {
				note.Places = append(note.Places, at)
			}
		}
		if note.Part != "" {
			d.Extra, d.Detail = note, note.Text(note.Places)
		}
	}
	return diags
}

// contains says whether the place inner lies in outer.
func contains(outer, inner hcl.Range) bool {
	return outer.Filename == inner.Filename && outer.Start.Byte <= inner.Start.Byte && inner.End.Byte <= outer.End.Byte
}

// Included is the Extra of a diagnostic about a block that stands in a part. The
// same mistake is found in every grid that includes the part: who shows
// diagnostics can join those with equal Detail by their places.
type Included struct {
	Detail string   // without the places
	Part   string   // address of the part
	Places []string // where it is included

	extra any
}

// UnwrapDiagnosticExtra implements hcl.DiagnosticExtraUnwrapper.
func (n *Included) UnwrapDiagnosticExtra() any { return n.extra }

// maxPlaces bounds the places that one diagnostic names.
const maxPlaces = 4

// IncludedAt returns the detail without the places, and the places.
func (n *Included) IncludedAt() (detail string, places []string) { return n.Detail, n.Places }

// Text is the detail with the places at which the part is included.
func (n *Included) Text(places []string) string {
	shown, more := places, ""
	if len(shown) > maxPlaces {
		shown, more = shown[:maxPlaces], fmt.Sprintf("; and %d more", len(places)-maxPlaces)
	}
	return strings.TrimSpace(fmt.Sprintf("%s This stands in %s, included at %s%s.", n.Detail, n.Part, strings.Join(shown, "; "), more))
}
