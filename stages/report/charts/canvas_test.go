package charts

import (
	"encoding/xml"
	"image/color"
	"io"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func wellFormed(t *testing.T, elements string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<svg>" + elements + "</svg>"))
	for {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, elements)
		}
	}
}

func TestCoordinates(t *testing.T) {
	c := NewCanvas(100, 50)
	c.SetColor(Ink("axis"))
	c.Push()
	c.Translate(vg.Point{X: 10, Y: 20})
	c.Rotate(math.Pi / 2)

	if x, y := c.At(vg.Point{X: 5, Y: 0}); !(math.Abs(x-10) <= 1e-9) || !(math.Abs(y-25) <= 1e-9) {
		t.Errorf("rotated point at %v, %v; want 10, 25", x, y)
	}

	c.Pop()
	var p vg.Path
	p.Move(vg.Point{})
	p.Line(vg.Point{X: 100, Y: 50})
	c.Stroke(p)
	c.Stroke(p)

	if got, want := c.Elements(), `<path class="s-axis" d="M0 50L100 0M0 50L100 0"/>`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStyles(t *testing.T) {
	c := NewCanvas(10, 10)
	var p vg.Path
	p.Move(vg.Point{X: 1, Y: 1})
	p.Line(vg.Point{X: 2, Y: 1})
	p.Close()
	c.SetColor(color.RGBA{0xff, 0x80, 0, 0xff})
	c.Fill(p)
	c.SetLineDash([]vg.Length{2, 1}, 0)
	c.SetLineWidth(0.5)
	c.Stroke(p)

	want := `<path fill="#ff8000" d="M1 9L2 9Z"/><path fill="none" stroke="#ff8000" stroke-width="0.5" stroke-dasharray="2 1" d="M1 9L2 9Z"/>`
	if got := c.Elements(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	if got := c.Marks([]vg.Point{{X: 1, Y: 9}, {X: 2.25, Y: 8}}, Shapes[0]); got != "M1 1h0M2.2 2h0" {
		t.Errorf("marks %s", got)
	}
}

// TestPlot draws a whole plot twice: the same bytes, well-formed, with the text
// escaped and nothing outside of the canvas.
func TestPlot(t *testing.T) {
	drawn := func() string {
		p := plot.New()
		p.Title.Text = "a < b & c"
		p.Y.Label.Text = "latency"
		l, err := plotter.NewLine(plotter.XYs{{X: 1, Y: 2}, {X: 3, Y: 5}})
		if err != nil {
			t.Fatal(err)
		}

		s, err := plotter.NewScatter(plotter.XYs{{X: 1, Y: 2}, {X: 3, Y: 5}})
		if err != nil {
			t.Fatal(err)
		}

		s.Shape = draw.CircleGlyph{}
		p.Add(l, s)
		c := NewCanvas(300, 200)
		p.Draw(draw.New(c))

		return c.Elements()
	}

	first := drawn()
	wellFormed(t, first)

	if second := drawn(); second != first {
		t.Error("two drawings of one plot differ")
	}

	for _, want := range []string{"a &lt; b &amp; c", "rotate(-90 ", "A2.5 2.5 0 0 "} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}

	if strings.Contains(first, "NaN") {
		t.Error("a coordinate is no number")
	}
}
