package charts

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"aicplan/sink/base/stats"
	"aicplan/sink/base/textutil"
	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// Limits of the charts of single requests.
const (
	mostSets      = maxSeries // load points with a colour of their own
	quantiles     = 60        // points of a distribution
	mostGantt     = 250       // requests of a timeline
	leastRequests = 5         // for a distribution
)

// requests draws the distributions of the times of a table's requests, and when the requests of its largest
// load point ran.
func requests(id func(string) string, t *model.Table, all []model.Requests, budget int) []*Chart {
	sets := slices.DeleteFunc(slices.Clone(all), func(r model.Requests) bool {
		return r.Table != t.Address || len(r.Start) < leastRequests
	})
	if len(sets) == 0 {
		return nil
	}

	swept := t.Facets.Swept()
	name := func(r model.Requests) string { return t.Name }
	if swept != nil {
		slices.SortStableFunc(sets, func(a, b model.Requests) int { return compare(swept.Value[a.Row], swept.Value[b.Row]) })
		name = func(r model.Requests) string { return swept.Name + " " + swept.Cell(r.Row) }
	}
	largest := sets[len(sets)-1]

	var chosen []model.Requests
	n := min(len(sets), mostSets)
	for i := range n {
		chosen = append(chosen, sets[(len(sets)-1)*i/max(n-1, 1)])
	}

	var out []*Chart
	for _, d := range []struct {
		id, title string
		end       func(model.Requests) []float64
	}{
		{"ttft-distribution", "Time to first token", func(r model.Requests) []float64 { return r.First }},
		{"latency-distribution", "Request latency", func(r model.Requests) []float64 { return r.End }},
	} {
		if c := distribution(id(d.id), d.title, chosen, name, d.end, budget); c != nil {
			out = append(out, c)
		}
	}

	return append(out, gantt(id("requests"), largest, name(largest)))
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// distribution draws the share of requests of each load point that took at most a time.
func distribution(id, title string, sets []model.Requests, name func(model.Requests) string,
	end func(model.Requests) []float64, budget int) *Chart {
	pt := points{
		id: id, title: "Distribution of the " + strings.ToLower(title[:1]) + title[1:], xLabel: title + " (ms)",
		yLabel: "requests", yTicks: linearTicks{n: 5, unit: percentLabel}, yMin: 0, yMax: 1.04,
		series: facets.Series{Column: "load point"}, h: loadHeight, budget: budget, join: true, fine: true, noMedians: true,
		caption: "The share of requests that took at most this time.",
	}

	value, share := column{name: title, unit: "ms"}, column{name: "requests", unit: "%"}
	for _, r := range sets {
		var times []float64
		for k, at := range end(r) {
			if !math.IsNaN(at) {
				times = append(times, 1000*(at-r.Start[k]))
			}
		}
		if len(times) == 0 {
			continue
		}

		slices.Sort(times)
		pt.counts = append(pt.counts, len(times))
		pt.series.Names = append(pt.series.Names, name(r))
		for q := range quantiles + 1 {
			p := float64(q) / quantiles
			pt.x, pt.y = append(pt.x, stats.Rank(times, p)), append(pt.y, p)
			pt.series.Code = append(pt.series.Code, len(pt.series.Names)-1)
		}
	}

	for i := range pt.x {
		value.num, share.num = append(value.num, pt.x[i]), append(share.num, 100*pt.y[i])
	}
	pt.columns, pt.xLog = []column{value, share}, spans(pt.x)
	return pt.chart()
}

// gantt draws when each request of a load point waited for its first token and received the others.
func gantt(id string, r model.Requests, name string) *Chart {
	n := min(len(r.Start), mostGantt)
	g := &ganttBars{r: r}
	last := 0.0
	for i := range n {
		k := (len(r.Start) - 1) * i / max(n-1, 1)
		g.rows = append(g.rows, k)
		last = math.Max(last, r.End[k])
	}

	p := newPlot("seconds since the first request", "request")
	p.X.Min, p.X.Max = widen(0, last, false)
	p.X.Tick.Marker, p.Y.Tick.Marker = linearTicks{n: 6}, linearTicks{n: 5, unit: Whole}
	p.Y.Min, p.Y.Max = 0.5, float64(len(r.Start))+0.5
	p.Add(grid{x: true}, g)

	c := &Chart{ID: id, Title: "Requests of " + name, W: width, H: height, Body: render(p, width, height),
		Legend: []Key{{Name: "until the first token", Class: "c0", Shape: 1}, {Name: "until the last token", Class: "c1", Shape: 1}},
		Data:   map[string]string{"kind": "requests"},
		Alt:    fmt.Sprintf("Timeline of %d requests of %s.", n, name)}
	if n < len(r.Start) {
		c.Caption = fmt.Sprintf("%s of %s requests.", textutil.Count(int64(n)), textutil.Count(int64(len(r.Start))))
	}
	return c
}

// ganttBars draws two boxes for each request.
type ganttBars struct {
	r    model.Requests
	rows []int
}

// Plot implements plot.Plotter.
func (g *ganttBars) Plot(c draw.Canvas, p *plot.Plot) {
	s := canvasOf(c)
	tx, ty := p.Transforms(&c)
	var waits, receives strings.Builder
	thick := math.Max(0.6, 0.8*math.Abs(ty(1).Points()-ty(0).Points())*float64(len(g.r.Start))/float64(len(g.rows)))

	box := func(b *strings.Builder, row int, from, to float64) {
		x, y := s.At(vg.Point{X: tx(from), Y: ty(float64(row + 1))})
		end, _ := s.At(vg.Point{X: tx(to), Y: ty(float64(row + 1))})
		fmt.Fprintf(b, "M%s %sh%sv%sh-%sz", Num(x), Num(y-thick/2), Num(end-x), Num(thick), Num(end-x))
	}
	for _, k := range g.rows {
		first := g.r.First[k]
		if math.IsNaN(first) {
			first = g.r.End[k]
		}
		box(&waits, k, g.r.Start[k], first)
		if g.r.End[k] > first {
			box(&receives, k, first, g.r.End[k])
		}
	}

	s.Write(fmt.Sprintf(`<path class="b c0" d="%s"/><path class="b c1" d="%s"/>`, waits.String(), receives.String()))
}
