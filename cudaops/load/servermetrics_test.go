package load

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
)

// TestServerMetrics checks the summary of a page with each type of metric, and that it is exported.
func TestServerMetrics(t *testing.T) {
	var served, pages atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/chat/completions":
			served.Add(1)
			fmt.Fprint(w, chunk+"data: [DONE]\n\n")
		case "/metrics":
			n := served.Load()
			fmt.Fprintf(w, "# HELP served_total Requests.\n# TYPE served_total counter\nserved_total{engine=\"0\"} %d\n", 1000+n)
			fmt.Fprintf(w, "# TYPE queue gauge\nqueue %d\n", pages.Add(1))
			fmt.Fprintf(w, "# TYPE wait_seconds histogram\nwait_seconds_bucket{le=\"1\"} %d\nwait_seconds_bucket{le=\"2\"} %d\n"+
				"wait_seconds_bucket{le=\"+Inf\"} %[2]d\nwait_seconds_sum %[2]d\nwait_seconds_count %[2]d\n", n/2, n)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	e := measure(t, map[string]any{"url": srv.URL, "model": "m"}, `{"load": {"requests": 40, "server_metrics": 0.01}}`,
		"chat", `{}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	files := map[string]string{}
	for _, a := range e.attached {
		files[a.Name] = string(a.Data)
	}
	var got struct {
		Summary struct {
			OK []string `json:"endpoints_successful"`
		}
		Metrics map[string]aiperf.ServerMetric
	}
	if err := json.Unmarshal([]byte(files[aiperf.ServerJSON]), &got); err != nil {
		t.Fatal(err)
	}
	count, queue, wait := got.Metrics["served_total"], got.Metrics["queue"], got.Metrics["wait_seconds"]
	if len(got.Summary.OK) != 1 || count.Type != "counter" || count.Description != "Requests." || len(count.Series) != 1 {
		t.Fatalf("%s", files[aiperf.ServerJSON])
	}
	if s := count.Series[0]; s.Stats["total"] != 40 || s.Labels["engine"] != "0" || !(s.Stats["rate"] > 0) {
		t.Errorf("%+v", s)
	}
	if s := queue.Series[0].Stats; queue.Type != "gauge" || s["min"] >= s["max"] || !(s["p50"] > 0) {
		t.Errorf("%+v", s)
	}
	if s := wait.Series[0]; wait.Unit != "seconds" || s.Stats["count"] != 40 || s.Stats["avg"] != 1 ||
		s.Buckets["1"] != 20 ||
		s.Stats["p50_estimate"] != 1 || !(s.Stats["p90_estimate"] > 1.7 && s.Stats["p90_estimate"] < 1.9) {
		t.Errorf("%+v", s)
	}
	csv := files[aiperf.ServerCSV]
	if !strings.Contains(csv, "Endpoint,Type,Metric,Unit,total,rate,engine,Description\n") ||
		!strings.Contains(csv, ",counter,served_total,,40.0000,") {
		t.Errorf("%s", csv)
	}
}

// TestIncompleteServerPages checks that an increase which the first and the last page do not show is missing, not the
// value since the start of the server. ok is the increase of the counter that each page has.
func TestIncompleteServerPages(t *testing.T) {
	page := func(v string) string {
		return "# TYPE ok counter\nok " + v + "\n# TYPE vllm:prefix_cache_queries_total counter\n" +
			"vllm:prefix_cache_queries_total " + v + "\n# TYPE vllm:prefix_cache_hits_total counter\n" +
			"vllm:prefix_cache_hits_total " + v + "\n"
	}
	before, _, _ := strings.Cut(page("1000"), "# TYPE vllm:prefix_cache_hits")
	for _, c := range []struct {
		name, first, last string
		ok                any // increase of ok
		hit               any // cache_hit_rate
	}{
		{"complete", page("1000"), page("1010"), 10.0, 1.0},
		{"new in the last page", "# TYPE other counter\nother 1\n", page("10"), 10.0, 1.0},
		{"first is NaN", page("NaN"), page("1010"), nil, nil},
		{"first is cut", before + "vllm:prefix_cache_hits_total{\n", page("1010"), 10.0, nil},
		{"last is missing", page("1000"), "", nil, nil},
		{"last is too long", page("1000"), strings.Repeat("#\n", 9<<20), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var pages atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/v1/chat/completions":
					fmt.Fprint(w, chunk+"data: [DONE]\n\n")
				case r.URL.Path != "/metrics":
					http.NotFound(w, r)
				case pages.Add(1) == 1:
					fmt.Fprint(w, c.first)
				case c.last == "":
					http.Error(w, "busy", http.StatusServiceUnavailable)
				default:
					fmt.Fprint(w, c.last)
				}
			}))
			defer srv.Close()
			e := measure(t, map[string]any{"url": srv.URL, "model": "m"},
				`{"load": {"requests": 2, "server_metrics": 3600}}`, "chat", `{}`)
			if e.failure != nil {
				t.Fatalf("%+v", e.failure)
			}
			var got struct {
				Metrics map[string]aiperf.ServerMetric
			}
			for _, a := range e.attached {
				if a.Name == aiperf.ServerJSON {
					if err := json.Unmarshal(a.Data, &got); err != nil {
						t.Fatal(err)
					}
				}
			}
			var ok any
			if list := got.Metrics["ok"].Series; len(list) > 0 {
				ok = list[0].Stats["total"]
			}
			if hit := e.rows[0]["cache_hit_rate"]; hit != c.hit || ok != c.ok {
				t.Errorf("the cache hit rate is %v and the increase %v, want %v and %v", hit, ok, c.hit, c.ok)
			}
		})
	}
}

// TestServersWithDifferentTypes uses two servers that export a metric with different types.
func TestServersWithDifferentTypes(t *testing.T) {
	server := func(page string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/chat/completions":
				fmt.Fprint(w, chunk+"data: [DONE]\n\n")
			case "/metrics":
				fmt.Fprint(w, page)
			default:
				http.NotFound(w, r)
			}
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	one := server("# TYPE a counter\na 1\n# TYPE b counter\nb 1\n")
	two := server("# TYPE a gauge\na 1\n# TYPE b histogram\nb_bucket{le=\"+Inf\"} 1\nb_sum 1\nb_count 1\n")
	for _, urls := range [][]string{{one, two}, {two, one}} {
		e := measure(t, map[string]any{"urls": urls, "model": "m"}, `{"load": {"requests": 4}}`, "chat", `{}`)
		if e.failure != nil {
			t.Fatalf("%+v", e.failure)
		}
		for _, a := range e.attached {
			if a.Name == aiperf.ServerJSON && !strings.Contains(string(a.Data), " here and a ") {
				t.Errorf("%s", a.Data)
			}
		}
	}
}

// TestServerRestartKeepsIncreases checks a counter that restarts at 0 during the phase.
func TestServerRestartKeepsIncreases(t *testing.T) {
	var s pageSeries
	for _, v := range []float64{100, 130, 5, 25} {
		s.grow([]float64{v})
	}
	if s.grown[0] != 30+25 {
		t.Errorf("the counter grew by %v, want 55", s.grown[0])
	}
}

// TestServerMetricsWithoutFiniteSamples checks that such series are left out of the files.
func TestServerMetricsWithoutFiniteSamples(t *testing.T) {
	w := newServerPages()
	w.probes = make([]*cacheProbe, 1)
	page := "# TYPE a counter\na NaN\n# TYPE b gauge\nb +Inf\n# TYPE c histogram\nc_bucket{le=\"+Inf\"} 1\nc_sum " +
		"NaN\nc_count 1\n# TYPE d counter\nd 1\n"
	w.take("http://s", http.StatusOK, []byte(page), false)
	m := w.summary(1)
	raw, err := m.JSON("id", nil)
	if err != nil || !json.Valid(raw) ||
		len(m.Metrics["a"].Series)+len(m.Metrics["b"].Series)+len(m.Metrics["c"].Series) != 0 ||
		len(m.Metrics["d"].Series) != 1 {
		t.Errorf("%v\n%s", err, raw)
	}
}

// TestSlices checks that each slice has the requests that started in it.
func TestSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.RequestRate, set.Arrival, set.Requests, set.Slice = 0, 10, "constant", 25, 1
		srv := server(t, loadtest.Options{TTFT: 30 * time.Millisecond, ITL: time.Millisecond})
		res, _ := start(t, srv, set, Options{})
		list := res.Profiling.Slices
		if len(list) != 3 || list[0].Summary.Succeeded != 10 || list[2].Summary.Succeeded != 5 || !list[1].Complete ||
			list[2].Complete {
			t.Fatalf("%+v", list)
		}
		near(t, "rate", avg(t, list[1].Summary, "request_throughput"), 10)
		near(t, "TTFT", avg(t, list[1].Summary, "time_to_first_token"), 30)

		// The last request starts after 2.4 s and takes 37 ms.
		near(t, "seconds of the last slice", float64(list[2].To-list[2].From)/1e9, 0.437)
		near(t, "rate of the last slice", avg(t, list[2].Summary, "request_throughput"), 5/0.437)
		files, err := aiperf.SliceFiles(list, nil)
		if err != nil || !json.Valid(files[0].Data) ||
			!strings.Contains(string(files[1].Data), ",Time to First Token,ms,avg,30.00\n") {
			t.Errorf("%v\n%s", err, files[1].Data)
		}
	})
}

// TestSlicesCountAllOpenRequests checks that quantities over time of a slice are those of all requests that are open in
// it, also of those that started earlier or end later.
func TestSlicesCountAllOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.RequestRate, set.Arrival, set.Requests, set.Slice = 0, 10, "constant", 45, 1
		set.ISL, set.OSL = 10, 3
		srv := server(t, loadtest.Options{TTFT: 500 * time.Millisecond, ITL: time.Second})
		res, _ := start(t, srv, set, Options{})
		list := res.Profiling.Slices
		if len(list) != 5 {
			t.Fatalf("%d slices", len(list))
		}

		// A request takes 2.5 s: 0.5 s for 10 tokens of the prompt, and a token in each of the two further seconds.
		s := list[3].Summary
		near(t, "concurrency", avg(t, s, "effective_concurrency"), 25)
		near(t, "prefill concurrency", avg(t, s, "effective_prefill_concurrency"), 5)
		near(t, "prefill rate", avg(t, s, "effective_prefill_throughput"), 100)
		near(t, "decode rate", avg(t, s, "effective_decode_throughput"), 20)
	})
}
