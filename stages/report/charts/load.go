package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// loadMetrics are the metrics of loads and experiments in the order of their charts.
var loadMetrics = []string{"request_throughput", "throughput", "ttft", "itl", "tpot", "latency", "goodput",
	"iteration_wall_clock", "comm_overhead", "comm_exposed_pct"}

// loads draws a table with several metrics: each metric against the column that varies, the speed-up if
// the number of GPUs varies, and throughput against interactivity.
func loads(id func(string) string, t *model.Table, budget int) []*Chart {
	f := t.Facets
	swept := f.Swept()
	if swept == nil {
		return nil
	}

	columns := hover(t)
	series := f.Series
	if series.Column == swept.Name || len(series.Names) == f.Rows {
		series = facets.Series{} // each row would be a series of its own
	}
	front := series
	if series.Column == "" && len(bySwept(swept).Names) <= maxSeries {
		front = bySwept(swept)
	}

	var out []*Chart
	add := func(name, title, unit string, y []float64, levels ...level) {
		if y == nil {
			return
		}
		pt := points{
			id: id(name), title: title + " against " + swept.Name, x: swept.Value, y: y,
			xLabel: swept.Name, yLabel: cmp.Or(unit, strings.ToLower(title)),
			xLog: spans(swept.Value), xTicks: atValues(swept.Value), series: series,
			columns: append(slices.Clip(columns), column{name: title, unit: unit, num: y}),
			budget:  budget, h: loadHeight, levels: levels, join: true, yMax: 1.08 * top(y),
		}
		if c := pt.chart(); c != nil {
			out = append(out, c)
		}
	}

	for _, name := range loadMetrics {
		for _, m := range f.Metrics {
			if m.Name == name && (name != "tpot" || f.Column("itl") == nil) { // they are equal
				add(name, Capital(model.MetricTitle(name)), m.Unit, m.Values)
			}
		}
	}

	speedUp, efficiency := f.SpeedUp()
	add("speed-up", "Speed-up", "", speedUp, level{1, true})
	add("efficiency", "Efficiency", "", efficiency, level{1, true})

	if c := scaling(id("scaling"), t); c != nil {
		out = append(out, c)
	}
	if c := pareto(id("pareto"), f, columns, front, budget); c != nil {
		out = append(out, c)
	}

	return out
}

// bySwept makes a series of the rows of each swept value.
func bySwept(p *facets.Param) facets.Series {
	s := facets.Series{Column: p.Name}
	for i := range p.Value {
		name := p.Name + " " + p.Cell(i)
		at := slices.Index(s.Names, name)
		if at < 0 {
			at = len(s.Names)
			s.Names = append(s.Names, name)
		}
		s.Code = append(s.Code, at)
	}
	return s
}

// pareto draws tokens/s of a GPU against tokens/s of a user. Rows on the front are not beaten in both.
func pareto(id string, f *facets.Facets, columns []column, series facets.Series, budget int) *Chart {
	user, all := f.Column("throughput_per_user"), f.Column("throughput")
	if user == nil || all == nil || f.Rows < 2 {
		return nil
	}

	label, y := "tokens/s", all
	if gpus := f.GPUs(); gpus != nil {
		label, y = "tokens/s/GPU", make([]float64, len(all))
		for i := range all {
			y[i] = all[i] / gpus[i]
		}
	}

	front := new(frontLine)
	for i := range user {
		if onFront(user, y, i) {
			front.x, front.y = append(front.x, user[i]), append(front.y, y[i])
		}
	}

	return points{
		id: id, title: "Throughput against interactivity", x: user, y: y, xLabel: "tokens/s/user", yLabel: label,
		series: series, columns: columns, budget: budget, h: loadHeight, noMedians: true, yMax: 1.08 * top(y), xZero: true,
		over: []plot.Plotter{front},
		caption: fmt.Sprintf("%d of %d rows are on the Pareto front (dashed): no other row is better in both.",
			len(front.x), f.Rows),
	}.chart()
}

// frontLine joins the rows of the Pareto front.
type frontLine struct{ x, y []float64 }

// Plot implements plot.Plotter.
func (f *frontLine) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	var line []vg.Point
	for i := range f.x {
		line = append(line, vg.Point{X: tx(f.x[i]), Y: ty(f.y[i])})
	}
	slices.SortFunc(line, func(a, b vg.Point) int { return cmp.Compare(a.X, b.X) })
	c.StrokeLines(draw.LineStyle{Color: axisInk, Width: 1, Dashes: []vg.Length{4, 3}}, line)
}

// onFront reports whether no other row is at least as good in both and better in one.
func onFront(x, y []float64, row int) bool {
	if math.IsNaN(x[row]) || math.IsNaN(y[row]) {
		return false
	}
	for i := range x {
		if x[i] >= x[row] && y[i] >= y[row] && (x[i] > x[row] || y[i] > y[row]) {
			return false
		}
	}
	return true
}

// spans reports whether positive values span more than a factor of eight.
func spans(v []float64) bool {
	least, most := math.Inf(1), 0.0
	for _, x := range v {
		if !math.IsNaN(x) {
			least, most = math.Min(least, x), math.Max(most, x)
		}
	}
	return least > 0 && most/least >= 8
}

// mostTicks is the number of swept values above which an axis has round numbers instead.
const mostTicks = 8

// atValues returns ticks at the values of a sweep, or nil if they are many or close to each other.
func atValues(v []float64) plot.Ticker {
	values := facets.Sorted(v)
	values = slices.Compact(slices.DeleteFunc(values, math.IsNaN))
	if len(values) > mostTicks {
		return nil
	}
	close := len(values) > 1 && (values[len(values)-1]-values[0])/minGap(values) > 2*mostTicks
	if close && !spans(values) {
		return nil // labels would overlap on a linear axis
	}

	var out plot.ConstantTicks
	for _, x := range values {
		out = append(out, plot.Tick{Value: x, Label: SI(x)})
	}
	return out
}

// minGap returns the least difference of sorted values.
func minGap(v []float64) float64 {
	least := math.Inf(1)
	for i := 1; i < len(v); i++ {
		least = math.Min(least, v[i]-v[i-1])
	}
	return least
}
