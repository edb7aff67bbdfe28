package charts

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sizes of text in pixels. The widths are estimates, because fonts differ.
const (
	textSize  = 11
	labelSize = 12
	charWidth = 6.6
)

// axis is one axis of a frame.
type axis struct {
	label    string
	lo, hi   float64
	log      bool
	ticks    ticker // nil for round numbers
	grid     bool
	fromZero bool // fit begins the axis at 0
}

// share returns the position of a value between the ends of the axis: 0 at lo, 1 at hi.
func (a axis) share(v float64) float64 {
	if a.log {
		return math.Log(v/a.lo) / math.Log(a.hi/a.lo)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// marks returns the ticks of the axis.
func (a axis) marks() []tick {
	switch {
	case a.ticks != nil:
		return a.ticks(a.lo, a.hi)
	case a.log && a.hi/a.lo >= 5:
		return logTicks(a.lo, a.hi)
	}
	return linearTicks(6, SI)(a.lo, a.hi)
}

// frame is an SVG drawing with two axes. Its coordinates are pixels of the view box, and y grows downwards.
// The output depends only on the calls.
type frame struct {
	strings.Builder
	x, y                     axis
	left, right, top, bottom float64 // edges of the data
}

// newFrame draws the grid and the axes of a drawing of w by h pixels.
func newFrame(w, h int, x, y axis) *frame {
	f := &frame{x: x, y: y, left: 10, top: 8, bottom: float64(h) - 24}
	xs, ys := x.marks(), y.marks()

	widest := 0.0
	for _, t := range ys {
		widest = max(widest, textWidth(t.label))
	}

	f.left += widest
	if y.label != "" {
		f.left += labelSize + 4
	}

	if x.label != "" {
		f.bottom -= labelSize + 4
	}

	// The last label must not end outside of the drawing.
	f.right = float64(w) - 10
	for _, t := range xs {
		if at := x.share(t.at); at > 0 {
			f.right = min(f.right, f.left+(float64(w)-2-textWidth(t.label)/2-f.left)/at)
		}
	}

	f.axes(xs, ys, float64(h))
	return f
}

func (f *frame) axes(xs, ys []tick, h float64) {
	var grid, lines, labels strings.Builder
	lines.WriteString(polyline(f.left, f.top, f.left, f.bottom, f.right, f.bottom))

	for _, t := range xs {
		x := f.px(t.at)
		lines.WriteString(polyline(x, f.bottom, x, f.bottom+t.length()))
		if t.label == "" {
			continue
		}
		if f.x.grid {
			grid.WriteString(polyline(x, f.top, x, f.bottom))
		}
		labels.WriteString(text(x, f.bottom+16, "middle", t.label))
	}

	for _, t := range ys {
		y := f.py(t.at)
		lines.WriteString(polyline(f.left, y, f.left-t.length(), y))
		if t.label == "" {
			continue
		}
		if f.y.grid {
			grid.WriteString(polyline(f.left, y, f.right, y))
		}
		labels.WriteString(text(f.left-6, y+4, "end", t.label))
	}

	f.path("s-grid", `stroke-width="0.8"`, grid.String())
	f.path("s-axis", `stroke-width="0.8"`, lines.String())
	f.WriteString(labels.String())

	if f.x.label != "" {
		half := textWidth(f.x.label) * labelSize / textSize / 2
		x := min((f.left+f.right)/2, max(f.right+8-half, (f.right+10)/2))
		f.WriteString(text(x, h-6, "middle", f.x.label, fmt.Sprintf(`font-size="%d"`, labelSize)))
	}

	if f.y.label != "" {
		y := (f.top + f.bottom) / 2
		f.WriteString(text(14, y, "middle", f.y.label, fmt.Sprintf(`font-size="%d"`, labelSize),
			fmt.Sprintf(`transform="rotate(-90 14 %s)"`, num(y))))
	}
}

// px returns the position of a value on the x axis.
func (f *frame) px(v float64) float64 { return f.left + f.x.share(v)*(f.right-f.left) }

// py returns the position of a value on the y axis.
func (f *frame) py(v float64) float64 { return f.bottom - f.y.share(v)*(f.bottom-f.top) }

// path adds a path if it draws anything.
func (f *frame) path(class, attributes, d string) {
	if d == "" {
		return
	}
	if attributes != "" {
		attributes += " "
	}
	fmt.Fprintf(f, `<path class="%s" %sd="%s"/>`, class, attributes, d)
}

// dashed adds a dashed line through the points.
func (f *frame) dashed(class, dashes string, at ...float64) {
	f.path(class, fmt.Sprintf(`stroke-dasharray="%s"`, dashes), polyline(at...))
}

// level draws a horizontal line if its value is in the drawing.
func (f *frame) level(v float64) {
	if v >= f.y.lo && v <= f.y.hi {
		f.dashed("s-level", "5 3", f.left, f.py(v), f.right, f.py(v))
	}
}

// polyline returns the path of a line through points given as x, y, x, y.
func polyline(at ...float64) string {
	var b strings.Builder
	for i := 0; i < len(at); i += 2 {
		word := "L"
		if i == 0 {
			word = "M"
		}
		b.WriteString(word + num(at[i]) + " " + num(at[i+1]))
	}
	return b.String()
}

// box returns the path of a rectangle.
func box(x, y, w, h float64) string {
	return fmt.Sprintf("M%s %sh%sv%sh-%sz", num(x), num(y), num(w), num(h), num(w))
}

func text(x, y float64, anchor, s string, attributes ...string) string {
	return fmt.Sprintf(`<text x="%s" y="%s" class="f-text" %s>%s</text>`, num(x), num(y),
		strings.Join(append(attributes, fmt.Sprintf(`text-anchor="%s"`, anchor)), " "), html.EscapeString(s))
}

func textWidth(s string) float64 {
	return charWidth * float64(utf8.RuneCountInString(s))
}

// num writes a coordinate with one decimal, in the shortest way.
func num(v float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// short rounds a value to six significant digits, for the page's script.
func short(v float64) float64 {
	s, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return s
}
