package charts

import (
	"strings"

	"gonum.org/v1/plot/vg"
)

// Shapes are the forms of marks, one for each series, which differ without colours too:
// each is a sub-path that follows the mark's centre. The first is a dot: a line
// of no length with round ends.
var Shapes = []string{"h0", "m-2.6-2.6h5.2v5.2h-5.2z", "m0-3.6l3.4 6h-6.8z", "m0-3.6l3.6 3.6-3.6 3.6-3.6-3.6z",
	"m0 3.6l3.4-6h-6.8z", "m-3.6-1h7.2v2h-7.2z", "m-1-3.6h2v7.2h-2z", "m-3.2 0l3.2-1.6 3.2 1.6-3.2 1.6z"}

// Small are the same forms for drawings with many marks.
var Small = []string{"h0", "m-1.6-1.6h3.2v3.2h-3.2z", "m0-2.2l2.1 3.7h-4.2z", "m0-2.3l2.3 2.3-2.3 2.3-2.3-2.3z",
	"m0 2.2l2.1-3.7h-4.2z", "m-2.3-.7h4.6v1.4h-4.6z", "m-.7-2.3h1.4v4.6h-1.4z", "m-2.1 0l2.1-1.1 2.1 1.1-2.1 1.1z"}

// ShapeClass is the class of the path that draws a shape.
func ShapeClass(shape int) string {
	if shape%len(Shapes) == 0 {
		return "pd"
	}
	return "ps"
}

// Marks returns the path data of one mark at every point, of one of the forms.
func (c *Canvas) Marks(at []vg.Point, form string) string {
	var b strings.Builder
	for _, p := range at {
		x, y := c.At(p)
		b.WriteString("M" + Num(x) + " " + Num(y) + form)
	}
	return b.String()
}

// Line returns the path data of a line through the points.
func (c *Canvas) Line(at []vg.Point) string {
	var b strings.Builder
	for i, p := range at {
		x, y := c.At(p)
		word := "L"
		if i == 0 {
			word = "M"
		}
		b.WriteString(word + Num(x) + " " + Num(y))
	}

	return b.String()
}
