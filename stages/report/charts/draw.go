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
	"aicplan/stages/report/facets"
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
	var out []Group
	if g := overall(r, budget); len(g.Charts) > 0 {
		out = append(out, g)
	}

	for i, t := range r.Tables {
		if g := of(i, t, r.Requests, budget); len(g.Charts) > 0 {
			out = append(out, g)
		}
	}

	return out
}

// of draws one table.
func of(i int, t *model.Table, all []model.Requests, budget int) Group {
	g := Group{Address: t.Address}
	add := func(c *Chart) {
		if c != nil {
			g.Charts = append(g.Charts, c)
		}
	}

	f := t.Facets
	id := func(name string) string { return fmt.Sprintf("t%d-%s", i, name) }
	if len(f.Metrics) > 1 {
		g.Charts = append(g.Charts, loads(id, t, budget)...)
		g.Charts = append(g.Charts, requests(id, t, all, budget)...)
		add(coverage(id("cover"), t))
		return g
	}

	if f.Size != nil && f.Latency != nil {
		columns := hover(t)
		add(points{
			id: id("latency"), title: Capital(f.Metric.Name) + " against size", x: f.Size, y: f.Latency,
			xLabel: f.SizeLabel, yLabel: f.Metric.Name + " (" + f.Unit + ")",
			xLog: true, yLog: true, series: f.Series, columns: columns, budget: budget, low: f.Low, high: f.High,
		}.chart())

		add(rates(id("rate"), t, slices.Clone(columns), budget))

		if f.Light != nil {
			add(points{
				id: id("light"), title: "Share of the speed of light", x: f.Size, y: f.Light, xLabel: f.SizeLabel,
				yLabel: "speed of light",
				xLog:   true, yTicks: linearTicks{n: 5, unit: percentLabel}, series: f.Series, columns: columns, budget: budget,
				yMin: 0, yMax: math.Max(1.05, top(f.Light)*1.05), levels: []level{{1, false}},
				caption: "The least time that the peaks of " + f.System + " allow, over the time measured.",
			}.chart())
		}

		if t.Ratio != nil {
			add(points{
				id: id("ratio"), title: "Ratio to " + t.Reference.A.Name, x: f.Size, y: t.Ratio, xLabel: f.SizeLabel,
				yLabel: f.Metric.Name + " over reference",
				xLog:   true, yLog: true, series: f.Series, columns: append(columns, column{name: "ratio", num: t.Ratio}),
				budget: budget,
				levels: []level{{1, true}, {1.1, false}, {1 / 1.1, false}},
				caption: fmt.Sprintf("Above 1 it is "+above(f.Metric)+
					" than the reference; dashed are 1 and 10 %% to either side. %s rows in common.",
					textutil.Count(int64(t.Reference.Common))),
			}.chart())
		}
	}

	add(heat(id("heat"), t))
	add(coverage(id("cover"), t))
	return g
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

// hover returns the columns that are shown at the pointer: parameters that vary,
// then measured values.
func hover(t *model.Table) []column {
	f := t.Facets
	var out []column
	for _, p := range f.Params {
		if p.Name == f.Series.Column || f.Rows > 1 && constant(p) {
			continue
		}
		out = append(out, column{name: p.Name, num: p.Value, text: p.Text})
	}

	out = append(out, column{name: f.Metric.Name, unit: f.Unit, num: f.Latency})
	if f.Light != nil {
		share := make([]float64, len(f.Light))
		for i, v := range f.Light {
			share[i] = 100 * v
		}
		out = append(out, column{name: "speed of light", unit: "%", num: share})
	}

	return out
}

func constant(p facets.Param) bool {
	for i := range p.Value {
		if p.Value[i] != p.Value[0] {
			return false
		}
	}

	for i := range p.Text {
		if p.Text[i] != p.Text[0] {
			return false
		}
	}

	return true
}

// overall draws the run: the timeline, and noise and clocks over time.
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

	add := func(c *Chart) {
		if c != nil {
			g.Charts = append(g.Charts, c)
		}
	}

	list := r.Watched
	add(timeline("run-timeline", tables))
	add(overTime("run-noise", "Noise over time", "standard deviation / mean", c, tables, budget,
		func(f *facets.Facets) []float64 { return f.Noise }, percentLabel))
	add(overTime("run-clock", "SM clock over time", "MHz", c, tables, budget,
		func(f *facets.Facets) []float64 { return f.Clock }, Whole))
	add(overTime("run-power", "Power over time", "W", c, tables, budget,
		func(f *facets.Facets) []float64 { return f.Power }, Whole))

	for len(list) > 0 {
		n := slices.IndexFunc(list, func(w model.Watched) bool { return w.Metric != list[0].Metric })
		if n < 0 {
			n = len(list)
		}
		add(telemetryChart(list[:n], c, budget))
		list = list[n:]
	}

	return g
}

// telemetryChart draws one metric of all devices along the clock.
func telemetryChart(list []model.Watched, c *clock, budget int) *Chart {
	pt := points{
		id:     "telemetry-" + strings.ReplaceAll(strings.ToLower(list[0].Metric), " ", "-"),
		title:  list[0].Metric + " over time",
		xLabel: c.label(), yLabel: list[0].Unit, xTicks: c, yTicks: linearTicks{n: 5, unit: Whole}, budget: budget,
		series: facets.Series{Column: "device"}, h: loadHeight, noMedians: true,
		caption: "What telemetry read in the windows of the cases.",
	}

	value, at := column{name: list[0].Metric, unit: list[0].Unit}, column{name: "time (UTC)"}
	for i, w := range list {
		pt.series.Names = append(pt.series.Names, w.Device)
		for k, t := range w.At {
			pt.x, pt.y = append(pt.x, c.on(t)), append(pt.y, w.Value[k])
			pt.series.Code = append(pt.series.Code, i)
			value.num, at.text = append(value.num, w.Value[k]), append(at.text, stamp(t).Format("15:04:05.0"))
		}
	}

	pt.columns = []column{value, at}
	return pt.chart()
}

// overTime draws one column of all tables along the clock, a series a table.
func overTime(id, title, label string, c *clock, tables []*model.Table, budget int,
	of func(*facets.Facets) []float64, unit func(float64) string) *Chart {
	pt := points{
		id: id, title: title, xLabel: c.label(), yLabel: label, xTicks: c, yTicks: linearTicks{n: 5, unit: unit},
		budget: budget,
		series: facets.Series{Column: "table"}, h: loadHeight, noMedians: true,
	}

	value := column{name: label}
	latency := column{name: "latency"}
	for i, t := range tables {
		v := of(t.Facets)
		if v == nil {
			continue
		}

		pt.series.Names = append(pt.series.Names, t.Name)
		for row, at := range t.Facets.Started {
			if math.IsNaN(at) {
				continue
			}

			pt.x, pt.y = append(pt.x, c.on(at)), append(pt.y, v[row])
			pt.series.Code = append(pt.series.Code, len(pt.series.Names)-1)
			value.num = append(value.num, v[row])

			l := math.NaN()
			if tables[i].Facets.Latency != nil {
				l = tables[i].Facets.Latency[row]
			}

			latency.num = append(latency.num, l)
		}
	}

	pt.columns = []column{value, latency}
	return pt.chart()
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
