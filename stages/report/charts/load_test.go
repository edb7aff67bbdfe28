package charts

import (
	"strings"
	"testing"

	"aicplan/sink/catalog"
	"aicplan/stages/report/model"
)

// TestLoadCharts draws a sweep over concurrency: each metric against it, and the Pareto front.
func TestLoadCharts(t *testing.T) {
	t.Parallel()
	metric := func(name, unit string, values ...float64) model.Measured {
		return model.Measured{Column: catalog.Column{Name: name, Unit: unit}, Values: values}
	}
	f := &model.Facets{Rows: 3, Metric: catalog.Column{Name: "request_throughput"}, Unit: "requests/s",
		Latency: []float64{1, 3, 3}, Params: []model.Param{
			{Name: "isl", Numeric: true, Value: []float64{100, 100, 100}},
			{Name: "concurrency", Numeric: true, Value: []float64{1, 4, 8}},
		},
		Metrics: []model.Measured{metric("request_throughput", "requests/s", 1, 3, 3), metric("ttft", "ms", 10, 12, 30),
			metric("throughput", "tokens/s", 100, 300, 290), metric("throughput_per_user", "tokens/s/user", 100, 75, 36)}}

	titles := map[string]*Chart{}
	d := drawing{Group: new(Group), table: &model.Table{Facets: f}, budget: 100}
	d.loads()
	for _, c := range d.Charts {
		titles[c.Title] = c
	}
	for _, want := range []string{"Request throughput against concurrency", "TTFT against concurrency",
		"Throughput against concurrency", "Throughput against interactivity"} {
		if titles[want] == nil {
			t.Errorf("no chart %q in %v", want, titles)
		}
	}
	if c := titles["Throughput against interactivity"]; c != nil &&
		!strings.Contains(c.Caption, "2 of 3 rows are on the Pareto front") {
		t.Errorf("caption: %s", c.Caption)
	}
}

// TestSweepsOfSeveralLoads draws a line for each load of a sweep over concurrency. Columns that identify rows are no
// load.
func TestSweepsOfSeveralLoads(t *testing.T) {
	t.Parallel()
	ttft := model.Measured{Column: catalog.Column{Name: "ttft", Unit: "ms"}, Values: []float64{10, 20, 11, 40}}
	f := &model.Facets{Rows: 4, Latency: ttft.Values, Metrics: []model.Measured{ttft}, Params: []model.Param{
		{Name: "name", Text: []string{"a", "b", "c", "d"}},
		{Name: "concurrency", Numeric: true, Value: []float64{1, 1, 4, 4}},
		{Name: "requests", Numeric: true, Value: []float64{10, 10, 40, 40}}, // follow from the concurrency
		{Name: "isl", Numeric: true, Value: []float64{100, 800, 100, 800}}}}
	d := drawing{Group: new(Group), table: &model.Table{Address: "collect.load", Facets: f}, budget: 1000}
	d.loads()
	if columns := d.Charts[0].Data.(pointsData).Columns; columns[1].Name != "concurrency" {
		t.Errorf("the pointer shows %+v", columns)
	}

	var sets []model.Requests
	for row := range f.Rows {
		sets = append(sets, model.Requests{Table: "collect.load", Row: row, Start: make([]float64, leastRequests),
			First: make([]float64, leastRequests), End: make([]float64, leastRequests)})
	}
	d.requests(sets)

	for i, want := range []string{"isl 100, isl 800", "concurrency 1, isl 100, concurrency 1, isl 800, " +
		"concurrency 4, isl 100, concurrency 4, isl 800"} {
		var names []string
		for _, key := range d.Charts[i].Legend {
			names = append(names, key.Name)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("chart %q has the series %s, want %s", d.Charts[i].Title, got, want)
		}
	}
}

// TestDistributionsHaveLines draws as many distributions as there are colours.
func TestDistributionsHaveLines(t *testing.T) {
	t.Parallel()
	var sets []model.Requests
	concurrency := make([]float64, mostSets)
	for row := range mostSets {
		r := model.Requests{Row: row}
		for i := range 100 {
			r.Start, r.First = append(r.Start, 0), append(r.First, float64((i+1)*(row+1)))
			r.End = append(r.End, float64((i+1)*(row+1)))
		}
		sets, concurrency[row] = append(sets, r), float64(row)
	}
	d := drawing{Group: new(Group), budget: 10000, table: &model.Table{Facets: &model.Facets{Rows: mostSets,
		Params: []model.Param{{Name: "concurrency", Numeric: true, Value: concurrency}}}}}
	d.requests(sets)
	if n := strings.Count(string(d.Charts[0].Body), `class="l c`); n != mostSets {
		t.Errorf("%d of %d distributions have lines", n, mostSets)
	}
}

// TestRequestCharts draws the distributions of the requests of two load points.
func TestRequestCharts(t *testing.T) {
	t.Parallel()
	set := func(row int, latency float64) model.Requests {
		r := model.Requests{Table: "collect.load", Row: row}
		for i := range 8 {
			start := float64(i) / 10
			r.Start, r.First = append(r.Start, start), append(r.First, start+latency/4)
			r.End = append(r.End, start+latency)
		}
		return r
	}
	few := model.Requests{Table: "collect.load", Start: []float64{0}, First: []float64{1}, End: []float64{2}}
	other := model.Requests{Table: "collect.other", Start: make([]float64, 9), First: make([]float64, 9),
		End: make([]float64, 9)}
	tab := &model.Table{Name: "load", Address: "collect.load", Facets: &model.Facets{Rows: 2, Params: []model.Param{
		{Name: "concurrency", Numeric: true, Value: []float64{8, 1}}}}}

	drawn := drawing{Group: new(Group), table: tab, budget: 1000}
	drawn.requests([]model.Requests{set(0, 0.4), set(1, 0.1), few, other})
	got := drawn.Charts
	if len(got) != 2 {
		t.Fatalf("%d charts", len(got))
	}
	for i, want := range []string{"Distribution of the time to first token", "Distribution of the request latency"} {
		if got[i].Title != want {
			t.Errorf("chart %d is %q, want %q", i, got[i].Title, want)
		}
	}

	d := got[1].Data.(pointsData)
	if len(d.Series) != 2 || d.Series[0].Name != "concurrency 1" || d.Series[1].Name != "concurrency 8" {
		t.Fatalf("the series are %+v", d.Series)
	}
	if first := d.Series[1].Cols[0][0]; first != 400.0 {
		t.Errorf("the fastest request of concurrency 8 took %v ms, want 400", first)
	}
	if note := got[1].Legend[1].Note; note != "8" {
		t.Errorf("the legend counts %s requests", note)
	}
}

func TestTicksHaveNoRoundingErrors(t *testing.T) {
	t.Parallel()
	for _, tick := range linearTicks(5, whole)(0.94, 1.16) {
		if len(tick.label) > len("0.95") {
			t.Errorf("a tick is labelled %s", tick.label)
		}
	}
}

func TestTicksOfNarrowRangesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, tick := range linearTicks(5, SI)(333.1, 334.9) {
		if seen[tick.label] {
			t.Errorf("two ticks are labelled %s", tick.label)
		}
		seen[tick.label] = true
	}
	if len(seen) < 3 {
		t.Errorf("only %v", seen)
	}
}
