package charts

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/stages/report/model"
)

// markBudget is how many marks all charts of a report have together: more is
// slow to open and shows nothing that fewer do not.
const markBudget = 60000

// Draw draws everything there is to draw of a report: a group for the run as a
// whole and one for each table, in the report's order. Equal reports give equal
// bytes.
func Draw(r *model.Report) []Group {
	drawn := 0
	for _, t := range r.Tables {
		if t.Rows > 0 {
			drawn++
		}
	}

	budget := min(max(markBudget/(4*max(drawn, 1)+2), 200), 3500)
	groups := []Group{overall(r, budget)}
	for i, t := range r.Tables {
		d := drawing{Group: &Group{Address: t.Address}, table: t, index: i, budget: budget}
		if len(t.Facets.Metrics) > 1 {
			d.loads()
			d.requests(r.Requests)
		} else {
			d.kernels()
		}

		d.add(coverage(d.id("cover"), t))
		groups = append(groups, *d.Group)
	}

	return slices.DeleteFunc(groups, func(g Group) bool { return len(g.Charts) == 0 })
}

// drawing collects the charts of one table.
type drawing struct {
	*Group
	table  *model.Table
	index  int
	budget int
}

func (d drawing) id(name string) string { return fmt.Sprintf("t%d-%s", d.index, name) }

// kernels draws a table whose rows have one metric.
func (d drawing) kernels() {
	t, f := d.table, d.table.Facets
	if f.Size == nil || f.Latency == nil {
		return
	}

	columns := slices.Clip(hover(t, f.Series.Column))
	against := func(name, title string, y []float64, label string) points {
		return points{id: d.id(name), title: title, x: f.Size, y: y, xAxis: axis{label: f.SizeLabel, log: true},
			yAxis: axis{label: label, log: true}, series: f.Series, columns: columns, budget: d.budget}
	}

	latency := against("latency", Capital(f.Metric.Name)+" against size", f.Latency, f.Metric.Name+" ("+f.Unit+")")
	latency.low, latency.high = f.Low, f.High
	d.add(latency.chart(), rates(d.id("rate"), t, columns, d.budget))

	if f.Light != nil {
		light := against("light", "Share of the speed of light", f.Light, "speed of light")
		light.yAxis = axis{label: "speed of light", ticks: linearTicks(5, percentLabel),
			hi: math.Max(1.05, top(f.Light)*1.05)}
		light.levels = []level{{1, false}}
		light.caption = "The least time that the peaks of " + f.System + " allow, over the time measured."
		d.add(light.chart())
	}

	if t.Ratio != nil {
		ratio := against("ratio", "Ratio to "+t.Reference.A.Name, t.Ratio, f.Metric.Name+" over reference")
		ratio.columns = append(columns, column{name: "ratio", num: t.Ratio})
		ratio.levels = []level{{1, true}, {1.1, false}, {1 / 1.1, false}}
		ratio.caption = fmt.Sprintf("Above 1 it is %s than the reference; dashed are 1 and 10 %% to either side. %s rows "+
			"in common.",
			above(f.Metric), textutil.Count(t.Reference.Common))
		d.add(ratio.chart())
	}
}

func top(v []float64) float64 {
	out := 0.0
	for _, x := range v {
		if x > out && !math.IsInf(x, 0) {
			out = x
		}
	}
	return out
}

// hover returns the columns that are shown at the pointer: parameters that vary, except the one that the series of the
// chart shows, then measured values.
func hover(t *model.Table, series string) []column {
	f := t.Facets
	var out []column
	for _, p := range f.Params {
		if p.Name == series || f.Rows > 1 && !p.Varies() {
			continue
		}
		out = append(out, column{name: p.Name, num: p.Value, text: p.Text})
	}

	out = append(out, column{name: f.Metric.Name, unit: f.Unit, num: f.Latency})
	if f.Light != nil {
		out = append(out, column{name: "speed of light", unit: "%", num: scaled(f.Light, 0.01)})
	}

	return out
}

// overall draws the run: noise, clocks, power and telemetry over time.
func overall(r *model.Report, budget int) Group {
	g := Group{}
	var tables []*model.Table
	for _, t := range r.Tables {
		if t.Facets.Started != nil && !t.Imported {
			tables = append(tables, t)
		}
	}

	all := moments(tables)
	for _, w := range r.Watched {
		all = append(all, w.At...)
	}

	c := newClock(all)
	if c == nil {
		return g
	}

	for _, column := range []struct {
		id, title, unit string
		label           func(float64) string
		of              func(*model.Facets) []float64
	}{
		{"run-noise", "Noise", "standard deviation / mean", percentLabel, func(f *model.Facets) []float64 { return f.Noise }},
		{"run-clock", "SM clock", "MHz", whole, func(f *model.Facets) []float64 { return f.Clock }},
		{"run-power", "Power", "W", whole, func(f *model.Facets) []float64 { return f.Power }},
	} {
		t := overTime(c, column.id, column.title, column.unit, "table", column.label, budget)
		for _, x := range tables {
			if v := column.of(x.Facets); v != nil {
				t.series(x.Name, x.Facets.Started, v)
			}
		}
		g.add(t.chart())
	}

	for list := r.Watched; len(list) > 0; {
		first := list[0]
		t := overTime(c, "telemetry-"+strings.ReplaceAll(strings.ToLower(first.Metric), " ", "-"), first.Metric, first.Unit,
			"device", whole, budget)
		t.caption = "What telemetry read in the windows of the cases."
		for len(list) > 0 && list[0].Metric == first.Metric {
			t.series(list[0].Device, list[0].At, list[0].Value)
			list = list[1:]
		}
		g.add(t.chart())
	}

	return g
}

// timeChart is a chart of values along the clock.
type timeChart struct {
	points
	clock *clock
}

func overTime(c *clock, id, title, unit, by string, label func(float64) string, budget int) *timeChart {
	return &timeChart{clock: c, points: points{
		id: id, title: title + " over time", xAxis: axis{label: c.label(), ticks: c.ticks},
		yAxis: axis{label: unit, ticks: linearTicks(5, label)}, budget: budget,
		series: model.Series{Column: by}, h: loadHeight, noMedians: true,
		columns: []column{{name: title, unit: unit}, {name: "time (UTC)"}},
	}}
}

// series adds values with their moments.
func (t *timeChart) series(name string, at, value []float64) {
	code := len(t.points.series.Names)
	t.points.series.Names = append(t.points.series.Names, name)
	for i, m := range at {
		if math.IsNaN(m) {
			continue
		}

		t.x, t.y = append(t.x, t.clock.on(m)), append(t.y, value[i])
		t.points.series.Code = append(t.points.series.Code, code)
		t.columns[0].num = append(t.columns[0].num, value[i])
		t.columns[1].text = append(t.columns[1].text, stamp(m).Format("15:04:05.0"))
	}
}

// Capital is a name that begins a line.
func Capital(name string) string {
	first, n := utf8.DecodeRuneInString(name)
	if n == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + name[n:]
}

// above returns the meaning of a ratio above 1.
func above(m catalog.Column) string {
	if m.Better == catalog.Higher {
		return "better"
	}
	return "slower"
}
