package experiment

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the plots.
const (
	plotWidth  = 10 * vg.Inch
	plotHeight = 7 * vg.Inch
	dpi        = 150
)

// Colours that tell models apart, also for readers who do not see red and green
// apart (Okabe and Ito's).
var colours = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {230, 159, 0, 255}, {86, 180, 233, 255},
}

// panel is one of the plots: a figure over the number of GPUs.
type panel struct {
	title, unit string
	value       func(all []Cell, c *Cell) *float64
	line        float64 // a value that is drawn through; 0 for none
}

var panels = []panel{
	{"Throughput", "generated tokens/s", func(_ []Cell, c *Cell) *float64 { return c.Throughput }, 0},
	{"Iteration", "s", func(_ []Cell, c *Cell) *float64 { return c.Iteration }, 0},
	{"Tensor-parallel efficiency", "%", Efficiency, 100},
	{"Communication", "% of a step", func(_ []Cell, c *Cell) *float64 { return c.Comm }, 0},
}

// Scaling draws throughput, iteration time, efficiency and communication over the
// number of GPUs, a line a model, as SVG and PNG. Cells without a figure have no
// point; a panel without any says so.
func Scaling(cells []Cell) (svg, png []byte, err error) {
	plots := make([][]*plot.Plot, 2)
	for i, p := range panels {
		one, err := p.draw(cells)
		if err != nil {
			return nil, nil, err
		}
		plots[i/2] = append(plots[i/2], one)
	}
	tiles := draw.Tiles{Rows: 2, Cols: 2, PadX: vg.Points(14), PadY: vg.Points(14), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(10)}
	put := func(c vg.CanvasSizer) {
		for i, row := range plot.Align(plots, tiles, draw.New(c)) {
			for j, at := range row {
				plots[i][j].Draw(at)
			}
		}
	}
	text := vgsvg.New(plotWidth, plotHeight)
	put(text)
	image := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	put(image)
	if svg, err = written(text); err != nil {
		return nil, nil, err
	}
	png, err = written(vgimg.PngCanvas{Canvas: image})
	return svg, png, err
}

func written(from io.WriterTo) ([]byte, error) {
	var b bytes.Buffer
	_, err := from.WriteTo(&b)
	return b.Bytes(), err
}

func (p panel) draw(cells []Cell) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.title, "GPUs", p.unit
	out.Y.Min = 0
	out.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	out.Legend.Top = true
	var models []string
	points := map[string]plotter.XYs{}
	var ticks []plot.Tick
	top := p.line
	for i := range cells {
		c := &cells[i]
		if c.GPUs == nil {
			continue
		}
		x := float64(*c.GPUs)
		if !slices.ContainsFunc(ticks, func(t plot.Tick) bool { return t.Value == x }) {
			ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprint(*c.GPUs)})
		}
		v := p.value(cells, c)
		if v == nil {
			continue
		}
		if !slices.Contains(models, c.Model) {
			models = append(models, c.Model)
		}
		points[c.Model] = append(points[c.Model], plotter.XY{X: x, Y: *v})
		top = max(top, *v)
	}
	out.X.Tick.Marker = plot.ConstantTicks(ticks)
	if len(models) == 0 {
		out.Title.Text += " (not measured)"
		out.X.Min, out.X.Max, out.Y.Max = 0, 1, 1
		return out, nil
	}
	slices.Sort(models)
	for i, m := range models {
		xy := points[m]
		slices.SortStableFunc(xy, func(a, b plotter.XY) int { return int(a.X - b.X) })
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, fmt.Errorf("plot of %s: %w", p.title, err)
		}
		line.Color, dots.Color = colours[i%len(colours)], colours[i%len(colours)]
		line.Width, dots.Radius, dots.Shape = vg.Points(1.6), vg.Points(3), draw.CircleGlyph{}
		out.Add(line, dots)
		out.Legend.Add(m, line, dots)
	}
	lo, hi := ticks[0].Value, ticks[0].Value
	for _, t := range ticks {
		lo, hi = min(lo, t.Value), max(hi, t.Value)
	}
	out.X.Min, out.X.Max = lo-0.25, hi+0.25
	if p.line > 0 {
		ideal := plotter.NewFunction(func(float64) float64 { return p.line })
		ideal.Dashes, ideal.Color = []vg.Length{vg.Points(4), vg.Points(3)}, color.Gray{140}
		out.Add(ideal)
	}
	out.Y.Max = 1.15 * top
	if top == 0 {
		out.Y.Max = 1
	}
	return out, nil
}

// roundTicks are four to eight marks at 1, 2 or 5 times a power of ten, each with
// a label without idle zeros.
func roundTicks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/4)))
	for _, m := range []float64{5, 2} {
		if (hi-lo)/(m*step) >= 4 {
			step *= m
			break
		}
	}
	var out []plot.Tick
	for k := math.Ceil(lo / step); k*step <= hi; k++ {
		out = append(out, plot.Tick{Value: k * step, Label: strconv.FormatFloat(k*step, 'g', 6, 64)})
	}
	return out
}
