package charts

import (
	"fmt"
	"math"
	"strings"

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
	if series.Column == swept.Name {
		series = facets.Series{}
	}

	var out []*Chart
	add := func(name, title, unit string, y []float64, levels ...level) {
		if y == nil {
			return
		}
		pt := points{
			id: id(name), title: title + " against " + swept.Name, x: swept.Value, y: y, xLabel: swept.Name, yLabel: axis(title, unit),
			xLog: spans(swept.Value), series: series, columns: append(columns[:len(columns):len(columns)], column{name: title, unit: unit, num: y}),
			budget: budget, h: 260, levels: levels, join: true, yMax: 1.08 * top(y),
		}
		if c := pt.chart(); c != nil {
			out = append(out, c)
		}
	}

	for _, name := range loadMetrics {
		for _, m := range f.Metrics {
			if m.Name == name {
				add(name, title(name), m.Unit, m.Values)
			}
		}
	}

	speedUp, efficiency := f.SpeedUp()
	add("speed-up", "Speed-up", "", speedUp, level{1, true})
	add("efficiency", "Efficiency", "", efficiency, level{1, true})

	if c := pareto(id("pareto"), f, columns, series, budget); c != nil {
		out = append(out, c)
	}

	return out
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

	front := 0
	for i := range user {
		if onFront(user, y, i) {
			front++
		}
	}

	return points{
		id: id, title: "Throughput against interactivity", x: user, y: y, xLabel: "tokens/s/user", yLabel: label,
		series: series, columns: columns, budget: budget, h: 260, noMedians: true, yMax: 1.08 * top(y),
		caption: fmt.Sprintf("%d of %d rows are on the Pareto front: no other row is better in both.", front, f.Rows),
	}.chart()
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

// title is the name of a metric in words; short names are abbreviations.
func title(name string) string {
	if len(name) <= 4 {
		return strings.ToUpper(name)
	}
	return Capital(strings.ReplaceAll(name, "_", " "))
}

func axis(title, unit string) string {
	if unit == "" {
		return title
	}
	return title + " (" + unit + ")"
}
