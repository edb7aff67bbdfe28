// Package charts draws a report's tables: latency against size, share of the
// speed of light, heat maps, coverage, ratios, noise and clocks over time, and
// when each worker measured. gonum/plot lays out the charts, which are SVG for a
// page, with the values that the page shows at the pointer.
package charts

import (
	"fmt"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Chart is one drawing.
type Chart struct {
	ID      string
	Title   string
	Caption string
	Alt     string // text for screen readers
	W, H    int
	Body    string // SVG elements
	Legend  []Key
	// Slices names the data sets of a heat map, one of which is drawn.
	Slices []string
	// Data is passed to the page's script as JSON.
	Data any
}

// Key is an entry of a legend.
type Key struct {
	Name  string
	Class string // colour: c0..c7, g (good), w, b, x
	Shape int
	Note  string
}

// Group is the charts of one part of the report.
type Group struct {
	Address string // the table's; empty for the run as a whole
	Charts  []*Chart
}

const (
	// Charts are drawn for a column of a phone and scaled up on wider screens, so that their text stays readable.
	width      = 380
	height     = 260
	loadHeight = 210
	ink        = Ink("text")
	axisInk    = Ink("axis")
	gridInk    = Ink("grid")
)

// face is Liberation Sans, whose widths are those of Arial and Helvetica.
func face(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// newPlot is an empty plot in the report's style.
func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.LineStyle = draw.LineStyle{Color: axisInk, Width: 0.8}
		a.Padding = 2
		a.Label.TextStyle.Font = face(12)
		a.Label.TextStyle.Color = ink
		a.Label.TextStyle.Handler = text.Plain{Fonts: font.DefaultCache}
		a.Label.Padding = 4
		a.Tick.Label.Font = face(11)
		a.Tick.Label.Color = ink
		a.Tick.Label.Handler = text.Plain{Fonts: font.DefaultCache}
		a.Tick.LineStyle = draw.LineStyle{Color: axisInk, Width: 0.8}
		a.Tick.Length = 4
	}

	return p
}

// render draws p on a canvas of that size.
func render(p *plot.Plot, w, h int) string {
	c := NewCanvas(float64(w), float64(h))
	all := draw.New(c)
	p.Draw(draw.Crop(all, 4, -10, 4, -6))
	return c.Elements()
}

// canvasOf is the SVG canvas below a draw.Canvas: charts are drawn on no other.
func canvasOf(c draw.Canvas) *Canvas {
	at := c.Canvas
	for {
		switch inner := at.(type) {
		case *Canvas:
			return inner
		case draw.Canvas: // plots crop by wrapping
			at = inner.Canvas
		default:
			panic(fmt.Sprintf("charts: drawn on a %T", at))
		}
	}
}

// short writes a value for a pointer to show: six significant digits.
func short(v float64) float64 {
	s, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	if err != nil {
		return v
	}
	return s
}

// grid draws lines behind the data at the labelled ticks of both axes.
type grid struct{ x, y bool }

// Plot implements plot.Plotter.
func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	style := draw.LineStyle{Color: gridInk, Width: 0.8}
	tx, ty := p.Transforms(&c)
	if g.x {
		for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
			if x := tx(t.Value); !t.IsMinor() && c.ContainsX(x) {
				c.StrokeLine2(style, x, c.Min.Y, x, c.Max.Y)
			}
		}
	}

	if g.y {
		for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
			if y := ty(t.Value); !t.IsMinor() && c.ContainsY(y) {
				c.StrokeLine2(style, c.Min.X, y, c.Max.X, y)
			}
		}
	}
}

// level is a horizontal line; kept ones are always in sight.
type level struct {
	y    float64
	kept bool
}

// Plot implements plot.Plotter.
func (l level) Plot(c draw.Canvas, p *plot.Plot) {
	_, ty := p.Transforms(&c)
	y := ty(l.y)
	if !c.ContainsY(y) {
		return
	}
	c.StrokeLine2(draw.LineStyle{Color: Ink("level"), Width: 1, Dashes: []vg.Length{5, 3}}, c.Min.X, y, c.Max.X, y)
}
