package experiment

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

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

// Colours of lines, distinct for readers with colour blindness (Okabe and Ito).
var colours = []color.RGBA{
	{0, 114, 178, 255},
	{213, 94, 0, 255},
	{0, 158, 115, 255},
	{204, 121, 167, 255},
	{230, 159, 0, 255},
	{86, 180, 233, 255},
}

// panel is one of the plots: a figure over the number of GPUs.
type panel struct {
	title, unit string
	value       func(c *Cell) *float64
	ideal       func(c *Cell) *float64 // drawn as a dashed line, nil for none
	named       bool                   // with the names of lines and cells
}

var panels = []panel{
	{"Throughput", "generated tokens/s", func(c *Cell) *float64 { return c.Throughput }, linear, true},
	{"Time of an iteration", "seconds", func(c *Cell) *float64 { return c.Iteration }, nil, false},
	{"Scaling efficiency", "% of the baseline", func(c *Cell) *float64 { return c.Scaling }, func(c *Cell) *float64 {
		if c.Scaling == nil {
			return nil
		}
		return new(100.0)
	}, false},
	{"Communication", "% of a step", func(c *Cell) *float64 { return c.Comm }, nil, false},
}

// linear is the throughput of a cell if it used its GPUs as well as its baseline does.
func linear(c *Cell) *float64 {
	if c.Scaling == nil || *c.Scaling == 0 {
		return nil
	}
	return new(*c.Throughput * 100 / *c.Scaling)
}

// Scaling draws throughput, iteration time, efficiency and communication over the number of GPUs, as SVG and
// PNG. It draws a line per family of parallelism, model and load. Cells with the same number of GPUs stand
// side by side. Cells without a figure have no point, and a panel without figures is titled "not measured".
func Scaling(cells []Cell) (svg, png []byte, err error) {
	cells = derived(cells)
	plots := make([][]*plot.Plot, 2)
	for i, p := range panels {
		one, err := p.draw(cells)
		if err != nil {
			return nil, nil, fmt.Errorf("plot of %s: %w", p.title, err)
		}
		plots[i/2] = append(plots[i/2], one)
	}

	tiles := draw.Tiles{Rows: 2, Cols: 2, PadX: vg.Points(14), PadY: vg.Points(14), PadTop: vg.Points(6),
		PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(10)}
	put := func(c vg.CanvasSizer) {
		canvas := draw.New(c)
		canvas.FillPolygon(color.White, []vg.Point{{}, {X: plotWidth}, {X: plotWidth, Y: plotHeight}, {Y: plotHeight}})
		for i, row := range plot.Align(plots, tiles, canvas) {
			for j, at := range row {
				plots[i][j].Draw(at)
			}
		}
	}

	text := vgsvg.New(plotWidth, plotHeight)
	put(text)
	image := vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(dpi))
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

// series is a line: the cells of one family of parallelism with one model and load, sorted by GPUs. The cell
// on one GPU is the start of every family.
type series struct {
	name  string
	cells []*Cell
}

// seriesOf returns the lines of cells in a stable order. A second cell of a line with the same number of GPUs,
// such as one with another environment, is a line of its own.
func seriesOf(cells []Cell) []series {
	type key struct{ model, load, family, again string }
	lines := map[key][]*Cell{}
	alone := map[key][]*Cell{} // cells on one GPU, by model and load

	for i := range cells {
		c := &cells[i]
		if c.GPUs == nil {
			continue
		}

		k := key{model: c.Model, load: c.Load(), family: c.Family()}
		if k.family == "" {
			alone[k] = append(alone[k], c)
			continue
		}
		if slices.ContainsFunc(lines[k], func(o *Cell) bool { return *o.GPUs == *c.GPUs }) {
			k.again = c.Experiment
		}
		lines[k] = append(lines[k], c)
	}

	for k, list := range alone {
		used := false
		for at := range lines {
			if at.model == k.model && at.load == k.load && at.again == "" {
				lines[at] = append([]*Cell{list[0]}, lines[at]...)
				used = true
			}
		}
		for i, c := range list {
			if i > 0 || !used {
				lines[key{k.model, k.load, "one GPU", c.Experiment}] = []*Cell{c}
			}
		}
	}

	keys := slices.SortedFunc(maps.Keys(lines), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.model, b.model), cmp.Compare(a.load, b.load), cmp.Compare(a.family, b.family),
			cmp.Compare(a.again, b.again))
	})

	// A name has the parts that differ.
	several := func(part func(key) string) bool {
		return slices.ContainsFunc(keys, func(k key) bool { return part(k) != part(keys[0]) })
	}
	models, loads := several(func(k key) string { return k.model }), several(func(k key) string { return k.load })

	var out []series
	for _, k := range keys {
		parts := []string{}
		if models {
			parts = append(parts, k.model)
		}
		parts = append(parts, k.family)
		if loads {
			parts = append(parts, k.load)
		}
		if k.again != "" {
			parts = append(parts, k.again)
		}
		out = append(out, series{strings.Join(parts, ", "), lines[k]})
	}

	return out
}

// dodge is the distance of the points of two lines with the same number of GPUs. Numbers of GPUs have the
// distance 1.
const dodge = 0.16

func (p panel) draw(cells []Cell) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.title, "GPUs", p.unit
	out.Y.Min = 0
	out.Y.Tick.Marker = plot.TickerFunc(roundTicks)
	out.Legend.Top, out.Legend.Left = true, true

	all := seriesOf(cells)
	at := map[int]int{} // position by number of GPUs
	for _, s := range all {
		for _, c := range s.cells {
			at[*c.GPUs] = 0
		}
	}
	var ticks []plot.Tick
	for i, n := range slices.Sorted(maps.Keys(at)) {
		at[n] = i
		ticks = append(ticks, plot.Tick{Value: float64(i), Label: strconv.Itoa(n)})
	}
	out.X.Tick.Marker = plot.ConstantTicks(ticks)

	top, drawn := 0.0, 0
	named := map[string]bool{}
	ideals := map[string]map[float64]float64{} // ideal values by model and load, and by position
	for i, s := range all {
		shift := (float64(i) - float64(len(all)-1)/2) * min(dodge, 0.7/float64(len(all)))
		var xy plotter.XYs
		var names []string
		for _, c := range s.cells {
			v := p.value(c)
			if v == nil {
				continue
			}

			x := float64(at[*c.GPUs])
			xy, top = append(xy, plotter.XY{X: x + shift, Y: *v}), max(top, *v)
			name := c.Experiment
			if named[name] {
				name = "" // the cell on one GPU is in several lines
			}
			names, named[c.Experiment] = append(names, name), true

			if p.ideal != nil {
				if v := p.ideal(c); v != nil {
					of := c.Model + " " + c.Load()
					if ideals[of] == nil {
						ideals[of] = map[float64]float64{}
					}
					ideals[of][x], top = *v, max(top, *v)
				}
			}
		}

		if len(xy) == 0 {
			continue
		}

		drawn++
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = colours[i%len(colours)], colours[i%len(colours)]
		line.Width, dots.Radius, dots.Shape = vg.Points(1.6), vg.Points(3), draw.CircleGlyph{}
		out.Add(line, dots)
		if !p.named {
			continue // the colours are those of the panel with names
		}

		if len(all) > 1 {
			out.Legend.Add(s.name, line, dots)
		}
		labels, err := plotter.NewLabels(plotter.XYLabels{XYs: xy, Labels: names})
		if err != nil {
			return nil, err
		}
		labels.Offset = vg.Point{X: vg.Points(4), Y: vg.Points(3)}
		for i := range labels.TextStyle {
			labels.TextStyle[i].Font.Size = vg.Points(7)
		}
		out.Add(labels)
	}

	for _, of := range slices.Sorted(maps.Keys(ideals)) {
		var xy plotter.XYs
		for _, x := range slices.Sorted(maps.Keys(ideals[of])) {
			xy = append(xy, plotter.XY{X: x, Y: ideals[of][x]})
		}

		line, err := plotter.NewLine(xy)
		if err != nil {
			return nil, err
		}
		line.Dashes, line.Color = []vg.Length{vg.Points(4), vg.Points(3)}, color.Gray{140}
		out.Add(line)
	}

	if drawn == 0 {
		out.Title.Text += " (not measured)"
		out.X.Min, out.X.Max, out.Y.Max = 0, 1, 1
		return out, nil
	}

	out.X.Min, out.X.Max = -0.5, float64(len(ticks))-0.5
	out.Y.Max = 1.15 * top
	if top == 0 {
		out.Y.Max = 1
	}
	return out, nil
}

// roundTicks returns four to eight marks at 1, 2 or 5 times a power of ten.
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
