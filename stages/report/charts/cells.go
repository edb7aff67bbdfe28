package charts

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"aicplan/sink/base/textutil"
)

// cells draws a matrix of classes: one path for all cells of a class. Row 0 is
// at the bottom.
type cells struct {
	nx, ny  int
	class   []int // -1: nothing there
	classes []string
	box     [4]float64 // the matrix in SVG coordinates: x, y, w, h
}

// Plot implements plot.Plotter.
func (m *cells) Plot(c draw.Canvas, p *plot.Plot) {
	s := canvasOf(c)
	tx, ty := p.Transforms(&c)
	x0, y1 := s.At(vg.Point{X: tx(-0.5), Y: ty(-0.5)})
	x1, y0 := s.At(vg.Point{X: tx(float64(m.nx) - 0.5), Y: ty(float64(m.ny) - 0.5)})
	m.box = [4]float64{x0, y0, x1 - x0, y1 - y0}
	w, h := m.box[2]/float64(m.nx), m.box[3]/float64(m.ny)
	paths := make([]strings.Builder, len(m.classes))

	gap := 0.5
	if w < 4 || h < 4 {
		gap = 0
	}

	for iy := range m.ny {
		for ix := range m.nx {
			k := m.class[iy*m.nx+ix]
			if k < 0 {
				continue
			}
			fmt.Fprintf(&paths[k], "M%s %sh%sv%sh-%sz", Num(x0+float64(ix)*w), Num(y0+float64(m.ny-1-iy)*h),
				Num(w-gap), Num(h-gap), Num(w-gap))
		}
	}

	for k := range paths {
		s.Write(fmt.Sprintf(`<path class="%s" data-k="%d" d="%s"/>`, m.classes[k], k, paths[k].String()))
	}
}

// words labels the categories of an axis and omits labels that would touch.
type words struct {
	names []string
	every int
}

// Ticks implements plot.Ticker.
func (w words) Ticks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	for i, n := range w.names {
		if v := float64(i); v >= lo && v <= hi && i%w.every == 0 {
			out = append(out, plot.Tick{Value: v, Label: n})
		}
	}
	return out
}

// tickNames shortens names in their middle, for axes: a long one would leave no room
// for the cells, and names often differ at their ends. Who points at a cell reads it
// in full.
func tickNames(names []string) []string {
	const most, ends = 19, 9
	out := make([]string, len(names))
	for i, n := range names {
		n = textutil.VisibleLine(n) // as it is going to be written
		if r := []rune(n); len(r) > most {
			n = string(r[:ends]) + "…" + string(r[len(r)-ends:])
		}
		out[i] = n
	}

	return out
}

// every returns the step at which n labels fit into so many pixels.
func every(names []string, pixels, perLabel float64) int {
	return max(1, int(float64(len(names))*perLabel/pixels+0.999))
}

// matrix lays a matrix of named columns and rows out.
func matrix(m *cells, xLabel, yLabel string, xs, ys []string, h int) string {
	p := newPlot(xLabel, yLabel)
	p.X.Min, p.X.Max = -0.5, float64(m.nx)-0.5
	p.Y.Min, p.Y.Max = -0.5, float64(m.ny)-0.5
	xs, ys = tickNames(xs), tickNames(ys)

	longest := 0
	for _, x := range xs {
		longest = max(longest, len([]rune(x)))
	}

	p.X.Tick.Marker = words{xs, every(xs, width-90, float64(longest)*5.6+8)}
	p.Y.Tick.Marker = words{ys, every(ys, float64(h)-60, 13)}
	p.X.Padding, p.Y.Padding = 0, 0
	p.Add(m)

	return render(p, width, h)
}
