package charts

import (
	"strings"
	"testing"

	"aicplan/sink/catalog"
	"aicplan/stages/report/facets"
	"aicplan/stages/report/model"
)

// TestLoadCharts draws a sweep over concurrency: each metric against it, and the Pareto front.
func TestLoadCharts(t *testing.T) {
	t.Parallel()
	metric := func(name, unit string, values ...float64) facets.Metric {
		return facets.Metric{Column: catalog.Column{Name: name, Unit: unit}, Values: values}
	}
	f := &facets.Facets{Rows: 3, Metric: catalog.Column{Name: "request_throughput"}, Unit: "requests/s",
		Latency: []float64{1, 3, 3}, Params: []facets.Param{
			{Name: "isl", Numeric: true, Value: []float64{100, 100, 100}},
			{Name: "concurrency", Numeric: true, Value: []float64{1, 4, 8}},
		},
		Metrics: []facets.Metric{metric("request_throughput", "requests/s", 1, 3, 3), metric("ttft", "ms", 10, 12, 30),
			metric("throughput", "tokens/s", 100, 300, 290), metric("throughput_per_user", "tokens/s/user", 100, 75, 36)}}

	titles := map[string]*Chart{}
	for _, c := range loads(func(name string) string { return name }, &model.Table{Facets: f}, 100) {
		titles[c.Title] = c
	}
	for _, want := range []string{"Request throughput against concurrency", "TTFT against concurrency",
		"Throughput against concurrency", "Throughput against interactivity"} {
		if titles[want] == nil {
			t.Errorf("no chart %q in %v", want, titles)
		}
	}
	if c := titles["Throughput against interactivity"]; c != nil && !strings.Contains(c.Caption, "2 of 3 rows are on the Pareto front") {
		t.Errorf("caption: %s", c.Caption)
	}
}
