package charts

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"aicplan/sink/base/stats"
	"aicplan/stages/report/model"
)

// Limits of the charts of single requests.
const (
	mostSets      = maxSeries              // load points with a colour of their own
	quantiles     = manyMarks/mostSets - 1 // points of a distribution, few enough for lines
	leastRequests = 5                      // for a distribution
)

// requests draws the distributions of the times of a table's requests.
func (d drawing) requests(all []model.Requests) {
	t := d.table
	sets := slices.DeleteFunc(slices.Clone(all), func(r model.Requests) bool {
		return r.Table != t.Address || len(r.Start) < leastRequests
	})
	if len(sets) == 0 {
		return
	}

	swept := t.Facets.Swept()
	name := func(r model.Requests) string { return t.Name }
	if swept != nil {
		slices.SortStableFunc(sets, func(a, b model.Requests) int {
			return cmp.Compare(swept.Value[a.Row], swept.Value[b.Row])
		})
		loads := t.Facets.Loads(swept)
		name = func(r model.Requests) string {
			text := swept.Name + " " + swept.Cell(r.Row)
			if loads.Column != "" {
				text += ", " + loads.Names[loads.Code[r.Row]]
			}
			return text
		}
		for _, p := range t.Facets.Params {
			if p.Name == "experiment_id" && swept.Name == model.GPUCount { // several cells have as many GPUs
				name = func(r model.Requests) string { return p.Cell(r.Row) }
			}
		}
	}

	var chosen []model.Requests
	n := min(len(sets), mostSets)
	for i := range n {
		chosen = append(chosen, sets[(len(sets)-1)*i/max(n-1, 1)])
	}

	first := func(r model.Requests) []float64 { return r.First }
	end := func(r model.Requests) []float64 { return r.End }
	d.add(distribution(d.id("ttft-distribution"), "Time to first token", chosen, name, first, d.budget),
		distribution(d.id("latency-distribution"), "Request latency", chosen, name, end, d.budget))
}

// distribution draws the share of requests of each load point that took at most a time.
func distribution(id, title string, sets []model.Requests, name func(model.Requests) string,
	end func(model.Requests) []float64, budget int) *Chart {
	pt := points{
		id: id, title: "Distribution of the " + strings.ToLower(title[:1]) + title[1:], xAxis: axis{label: title + " (ms)"},
		yAxis:  axis{label: "requests", ticks: linearTicks(5, percentLabel), hi: 1.04},
		series: model.Series{Column: "load point"}, h: loadHeight, budget: budget, join: true, fine: true, noMedians: true,
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
	pt.columns, pt.xAxis.log = []column{value, share}, spans(pt.x)
	return pt.chart()
}
