package charts

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"aicplan/stages/report/model"
)

// loadMetrics are the metrics of loads and experiments in the order of their charts.
var loadMetrics = []string{"request_throughput", "throughput", "ttft", "itl", "tpot", "latency", "goodput",
	"iteration_wall_clock", "comm_overhead", "comm_exposed_pct"}

// loads draws a table with several metrics: each metric against the column that varies, the efficiency if
// the number of GPUs varies, and throughput against interactivity.
func (d drawing) loads() {
	f := d.table.Facets
	swept := f.Swept()
	if swept == nil {
		return
	}

	columns := hover(d.table, "")
	series := f.Series
	if loads := f.Loads(swept); loads.Column != "" {
		series = loads
	}
	if series.Column == swept.Name || len(series.Names) == f.Rows {
		series = model.Series{} // each row would be a series of its own
	}
	if families := f.Families(); len(families.Names) > 1 && (swept.Name == model.GPUCount || swept.Parallel()) {
		series = families
	}
	front := series
	if series.Column == "" && len(bySwept(swept).Names) <= maxSeries {
		front = bySwept(swept)
	}

	add := func(name, title, unit string, y []float64, levels ...level) {
		if y == nil {
			return
		}
		d.add(points{
			id: d.id(name), title: title + " against " + swept.Name, x: swept.Value, y: y,
			xAxis:  axis{label: swept.Name, log: spans(swept.Value), ticks: atValues(swept.Value)},
			yAxis:  axis{label: cmp.Or(unit, strings.ToLower(title)), hi: 1.08 * top(y)},
			series: series, columns: append(slices.Clip(columns), column{name: title, unit: unit, num: y}),
			budget: d.budget, h: loadHeight, levels: levels, join: len(series.Names) <= maxSeries+1,
		}.chart())
	}

	for _, name := range loadMetrics {
		if name == "tpot" && f.Column("itl") != nil {
			continue // they are equal
		}
		for _, m := range f.Metrics {
			if m.Name == name {
				add(name, Capital(model.MetricTitle(name)), m.Unit, m.Values)
			}
		}
	}

	add("efficiency", "Efficiency", "", f.Efficiency(), level{1, true})
	d.add(pareto(d.id("pareto"), f, columns, front, d.budget))
}

// bySwept makes a series of the rows of each swept value.
func bySwept(p *model.Param) model.Series {
	s := model.Series{Column: p.Name}
	for i := range p.Value {
		s.Add(p.Name + " " + p.Cell(i))
	}
	return s
}

// pareto draws tokens/s of a GPU against tokens/s of a user. Rows on the front are not beaten in both.
func pareto(id string, f *model.Facets, columns []column, series model.Series, budget int) *Chart {
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

	var rows []int
	for i := range user {
		if onFront(user, y, i) {
			rows = append(rows, i)
		}
	}
	slices.SortFunc(rows, func(a, b int) int { return cmp.Compare(user[a], user[b]) })

	return points{
		id: id, title: "Throughput against interactivity", x: user, y: y, xAxis: axis{label: "tokens/s/user", fromZero: true},
		yAxis: axis{label: label, hi: 1.08 * top(y)}, series: series, columns: columns, budget: budget, h: loadHeight,
		noMedians: true,
		over: func(f *frame) {
			var line []float64
			for _, i := range rows {
				line = append(line, f.px(user[i]), f.py(y[i]))
			}
			f.dashed("s-axis", "4 3", line...)
		},
		caption: fmt.Sprintf("%d of %d rows are on the Pareto front (dashed): no other row is better in both.",
			len(rows), f.Rows),
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
	sorted := model.Sorted(v)
	return len(sorted) > 0 && sorted[0] > 0 && sorted[len(sorted)-1]/sorted[0] >= 8
}

// atValues returns ticks at the values of a sweep, or nil if they are many or close to each other.
func atValues(v []float64) ticker {
	const most = 8
	values := model.Distinct(v)
	if len(values) > most {
		return nil
	}

	var out []tick
	least := math.Inf(1)
	for i, x := range values {
		out = append(out, tick{x, SI(x)})
		if i > 0 {
			least = min(least, x-values[i-1])
		}
	}

	if len(values) > 1 && (values[len(values)-1]-values[0])/least > 2*most && !spans(values) {
		return nil // labels would overlap on a linear axis
	}

	return func(lo, hi float64) []tick { return out }
}
