package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/loadtest"
	"aicplan/cudaops/worker"
)

// TestSearchFindsTheKnee searches the capacity of servers that serve some requests at the same time.
func TestSearchFindsTheKnee(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		over, load string
		server     loadtest.Options
		limit      float64 // of ttft_p99, in ms
		knee, off  float64
	}{
		// As many requests at once without waiting as the server has places.
		{"concurrency", `{"requests": 64, "osl": 1}`, loadtest.Options{TTFT: 100 * ms, Slots: 8}, 110, 8, 0},
		{"concurrency", `{"requests": 120, "osl": 4}`, loadtest.Options{TTFT: 177 * ms, ITL: 4 * ms, Slots: 15}, 200, 15, 0},
		// 80 and 16.26 requests per second. Above that, the queue grows during a probe.
		{"request_rate", `{"duration": 5, "isl": 8, "osl": 1, "arrival": "constant"}`,
			loadtest.Options{TTFT: 100 * ms, Slots: 8}, 110, 80, 0.05},
		{"request_rate", `{"duration": 5, "isl": 8, "osl": 3, "arrival": "constant"}`,
			loadtest.Options{TTFT: 343 * ms, ITL: 13 * ms, Slots: 6}, 380, 16.26, 0.05},
	} {
		t.Run(fmt.Sprint(c.over, c.knee), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := server(t, c.server)
				h := NewHost(worker.Init{Options: map[string]any{"url": "mock:80", "model": "m"}, Spool: t.TempDir(),
					Blocks: json.RawMessage(fmt.Sprintf(
						`{"load": %s, "search": {"over": %q, "max": 500, "slo": {"ttft_p99": %v, "error_rate": 0}}}`, c.load, c.over, c.limit))})
				h.dial, h.deaf = srv.Dial, true
				var out emitter
				row, _, err := h.Load(t.Context(), worker.Case{ID: "abcdef0123456789", Op: "chat", Params: []byte(`{}`)}, &out)
				srv.Close()
				srv.Wait()
				if err != nil {
					t.Fatal(err)
				}

				found, _ := row["search_value"].(float64)
				if !(math.Abs(found-c.knee) <= c.off*c.knee) || row["search_met"] != true || row[c.over] != found {
					t.Errorf("found %v, the knee is %v: %v", found, c.knee, row)
				}
				if n := row["search_probes"].(int); n < 4 || n > 20 {
					t.Errorf("%d probes", n)
				}
				evidence := ""
				for _, a := range out.attached {
					if a.Name == SearchFile {
						evidence = string(a.Data) + a.File
					}
				}
				if evidence == "" {
					t.Error("the search has no evidence")
				}
			})
		})
	}
}

// TestSearchWithoutAValueThatMeetsTheLimits checks the row of a search whose lowest value is too high.
func TestSearchWithoutAValueThatMeetsTheLimits(t *testing.T) {
	_, addr := listen(t, loadtest.Options{TTFT: 5 * time.Millisecond})
	e := measure(t, map[string]any{"url": addr, "model": "m"},
		`{"load": {"requests": 4, "osl": 1}, "search": {"over": "concurrency", "slo": {"ttft_p50": 1}}}`, "chat", `{}`)
	if e.failure != nil || len(e.rows) != 1 {
		t.Fatalf("%+v", e.failure)
	}
	if r := e.rows[0]; r["search_met"] != false || r["search_value"] != nil || r["search_missed"] != 1.0 ||
		r["search_probes"] != 1 {
		t.Errorf("%v", r)
	}
}

// TestRequestsWithoutResponseMissLimits checks that requests which were cut after a grace that is longer than the limit
// count, if there are more of them than are above the percentile.
func TestRequestsWithoutResponseMissLimits(t *testing.T) {
	for _, c := range []struct {
		column string
		cut    int
		grace  float64
		met    bool
	}{
		{"latency_p99", 30, 1, false}, {"effective_latency_p90", 30, 1, false}, {"latency_p99", 0, 1, true},
		{"latency_p50", 30, 1, true}, {"latency_p99", 30, 0.1, true}, {"ttft_p99", 30, 1, true},
	} {
		s := &Search{SLO: map[string]float64{c.column: 500}}
		p := &probe{Rows: []worker.Row{{c.column: 50.0, "cut": c.cut, "requests": 92}}}
		if s.judge(p, c.grace); p.Met != c.met {
			t.Errorf("%+v: %v", c, p.Missed)
		}
	}
}

// TestSearchesThatCannotMiss checks loads that do not show a slow server, so each value would meet the limits.
func TestSearchesThatCannotMiss(t *testing.T) {
	for _, c := range []struct{ over, load, want string }{
		{"request_rate", `{}`, "the default of 10 requests"},
		{"request_rate", `{"duration": 1, "concurrency": 8}`, "requests wait in the client"},
		{"request_rate", `{"duration": 1, "users": 8}`, "remove users"},
		{"concurrency", `{"duration": 1, "request_rate": 5}`, "remove request_rate, or search over it"},
		{"concurrency", `{"concurrency": 8}`, "search varies concurrency, and it is set as well"},
	} {
		e := measure(t, map[string]any{"url": "127.0.0.1:1", "model": "m"}, fmt.Sprintf(
			`{"load": %s, "search": {"over": %q, "slo": {"ttft_p99": 200}}}`, c.load, c.over), "chat", `{}`)
		if e.failure == nil || e.failure.Class != worker.ClassUnsupportedConfig ||
			!strings.Contains(e.failure.Message, c.want) {
			t.Errorf("%s: %+v, want %q", c.load, e.failure, c.want)
		}
	}

	_, addr := listen(t, loadtest.Options{})
	e := measure(t, map[string]any{"url": addr, "model": "m"},
		`{"load": {"requests": 6, "osl": 1}, "search": {"over": "concurrency", "slo": {"error_rate": 0}}}`, "chat", `{}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	if r := e.rows[0]; r["search_value"] != 6.0 || r["search_missed"] != nil {
		t.Errorf("6 requests were open %v times, and %v missed a limit", r["search_value"], r["search_missed"])
	}
}

// TestInterruptedSearchHasNoRow interrupts the process in the second probe, before any of its requests ends. No request
// log of a probe stays in the spool.
func TestInterruptedSearchHasNoRow(t *testing.T) {
	var n atomic.Int64
	url := raw(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 4 {
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGINT)
			<-r.Context().Done()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, chunk+"data: [DONE]\n\n")
	})
	spool := t.TempDir()
	h := NewHost(worker.Init{Options: map[string]any{"url": url, "model": "m"}, Spool: spool, Blocks: json.RawMessage(
		`{"load": {"requests": 4}, "search": {"over": "concurrency", "slo": {"ttft_p99": 1e6}}}`)})
	h.patience = 0
	row, _, err := h.Load(t.Context(), worker.Case{ID: "abcdef0123456789", Op: "chat", Params: []byte(`{}`)}, &emitter{})
	fe, ok := errors.AsType[*worker.Failure](err)
	if !ok || fe.Class != worker.ClassTransient || !strings.Contains(err.Error(), "the search was interrupted") {
		t.Errorf("%v, %v", row, err)
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("the spool has %v, %v", left, err)
	}
}

// TestSearchOverAColumn checks that a search over a column of the grid fails before anything is sent. The row of the
// search has another value than the case.
func TestSearchOverAColumn(t *testing.T) {
	h := NewHost(worker.Init{Options: map[string]any{"url": "127.0.0.1:1", "model": "m"},
		Blocks: json.RawMessage(`{"search": {"over": "concurrency", "slo": {"ttft": 1}}}`)})
	err := h.Check(worker.Case{Op: "chat", Params: []byte(`{"concurrency": 2}`)})
	if err == nil || !strings.Contains(err.Error(), "remove it from load and from the grid") {
		t.Error(err)
	}
}

// TestSearchWithoutLimitsOfRequests checks a limit of the share of good requests, without what makes a request good.
func TestSearchWithoutLimitsOfRequests(t *testing.T) {
	h := NewHost(worker.Init{Options: map[string]any{"url": "127.0.0.1:1", "model": "m"},
		Blocks: json.RawMessage(`{"search": {"over": "concurrency", "slo": {"good_fraction": 0.9}}}`)})
	err := h.Check(worker.Case{Op: "chat", Params: []byte(`{}`)})
	if err == nil || !strings.Contains(err.Error(), "give load slo, such as { ttft = 200 }") {
		t.Error(err)
	}
}

// TestConcurrencyAboveTheDataset checks that no result has a concurrency that the prompts of a file cannot reach.
func TestConcurrencyAboveTheDataset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(path, []byte("one\ntwo\nthree\n"), 0o644); err != nil {
		t.Fatal(err)
	}

	_, addr := listen(t, loadtest.Options{})
	server := map[string]any{"url": addr, "model": "m"}
	e := measure(t, server, fmt.Sprintf(`{"load": {"dataset": %q}, "search": {"over": "concurrency", "slo": {"error_rate": 0}}}`,
		path), "chat", `{}`)
	if e.failure != nil || e.rows[0]["search_value"] != 3.0 || e.rows[0]["requests"] != 3 {
		t.Errorf("%+v, %v", e.failure, e.rows)
	}

	e = measure(t, server, fmt.Sprintf(`{"load": {"dataset": %q}}`, path), "chat", `{"concurrency": 4}`)
	if e.failure == nil || !strings.Contains(e.failure.Message, "only the 3 conversations of a.txt can be open") {
		t.Errorf("%+v, %v", e.failure, e.rows)
	}
}

// TestSearchEndsIfTheServerDoes checks that a value is not judged if the server accepts no connection any more.
func TestSearchEndsIfTheServerDoes(t *testing.T) {
	srv := httptest.NewUnstartedServer(nil)
	var n atomic.Int64
	srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.ContentLength <= 0 {
			http.NotFound(w, r)
			return
		}

		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, chunk+"data: [DONE]\n\n")
		if n.Add(1) == 8 {
			_ = srv.Listener.Close()
		}
	})
	srv.Start()
	defer srv.Close()
	e := measure(t, map[string]any{"url": srv.URL, "model": "m"},
		`{"load": {"requests": 4}, "search": {"over": "concurrency", "slo": {"ttft_p99": 1e6}}}`, "chat", `{}`)
	if e.failure == nil || e.failure.Class != worker.ClassTransient ||
		!strings.Contains(e.failure.Message, "cannot reach the server") {
		t.Errorf("%+v, %v", e.failure, e.rows)
	}
}

// TestInvalidSearches checks the errors of search blocks.
func TestInvalidSearches(t *testing.T) {
	for block, want := range map[string]string{
		`{"over": "isl", "slo": {"ttft": 1}}`: "over is \"isl\"; it must be one of " +
			"concurrency, request_rate",
		`{"over": "concurrency"}`:                                          "slo is not set",
		`{"over": "concurrency", "slo": {"tttft": 1}}`:                     `slo of search has "tttft", which is no column`,
		`{"over": "concurrency", "slo": {"ttft": 1}, "min": 0.5}`:          "both must be whole numbers",
		`{"over": "request_rate", "slo": {"ttft": 1}, "min": 5, "max": 2}`: "min must be above 0 and max not below it",
		`{"over": "request_rate", "slo": {"ttft": 1}, "tolerance": 0}`:     "tolerance of search is 0",
		`{"over": "request_rate", "slo": {"ttft": 1}, "iterations": 3}`:    `no option "iterations"`,
	} {
		e := measure(t, map[string]any{"url": "127.0.0.1:1", "model": "m"}, `{"search": `+block+`}`, "chat", `{}`)
		if e.failure == nil || e.failure.Class != worker.ClassUnsupportedConfig ||
			!strings.Contains(e.failure.Message, want) {
			t.Errorf("%s: %+v, want %q", block, e.failure, want)
		}
	}
}

// TestLimitsThatNeedAStream checks that a limit is an error if no response has its metric.
func TestLimitsThatNeedAStream(t *testing.T) {
	options := map[string]any{"url": "127.0.0.1:1", "model": "m", "streaming": false}
	for name, streamed := range map[string]bool{"tpot": true, "ttft_p99": true, "time_to_first_token": true, "icl": true,
		"throughput_per_user": true, "latency": false, "latency_p99": false, "throughput": false} {
		c := worker.Case{Op: "chat", Params: []byte(`{}`)}
		for _, block := range []string{"load", "search"} {
			text := fmt.Sprintf(`{"load": {"slo": {%q: 1}}}`, name)
			if block == "search" {
				text = fmt.Sprintf(`{"load": {"requests": 8}, "search": {"over": "concurrency", "slo": {%q: 1}}}`, name)
			}
			err := NewHost(worker.Init{Options: options, Blocks: json.RawMessage(text)}).Check(c)
			unknown := strings.Contains(fmt.Sprint(err), "no metric") || strings.Contains(fmt.Sprint(err), "is no column")
			if got := strings.Contains(fmt.Sprint(err), "which only streams have"); got != streamed && !unknown {
				t.Errorf("%s of %s: %v", name, block, err)
			}
		}
	}
}

func TestRepeatsAverageSharesOfRepeats(t *testing.T) {
	row := repeated([]worker.Row{{"cached_prompt_share": 0.0, "client_cpu_share": 0.25, "client_sched_p99": 1.0},
		{"cached_prompt_share": 1.0, "client_cpu_share": 0.75, "client_sched_p99": 3.0}})
	if row["cached_prompt_share"] != 0.5 || row["client_cpu_share"] != 0.5 || row["client_sched_p99"] != 2.0 {
		t.Errorf("%v", row)
	}
}

// TestRepeatsCountPromptsAndEarlyEnds checks that only synthetic prompts differ between repeats, and that a limit which
// ended the first repeat is the reason of the row.
func TestRepeatsCountPromptsAndEarlyEnds(t *testing.T) {
	for source, want := range map[string]any{"words": 8.0, "dataset": 4} {
		one := worker.Row{"prompt_source": source, "unique_prompts": 4, "ended_by": "requests"}
		first := maps.Clone(one)
		first["ended_by"] = "max_errors"
		if row := repeated([]worker.Row{first, one}); row["unique_prompts"] != want || row["ended_by"] != "max_errors" {
			t.Errorf("%v", row)
		}
	}
}

// TestRepeats checks totals, means and intervals of a repeated load.
func TestRepeats(t *testing.T) {
	_, addr := listen(t, loadtest.Options{TTFT: 5 * time.Millisecond})
	e := measure(t, map[string]any{"url": addr, "model": "m"}, `{"load": {"requests": 4, "osl": 2, "repeats": 3}}`, "chat",
		`{}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	r := e.rows[0]
	if r["requests"] != 12.0 || r["repeats"] != 3 || r["output_tokens"] != 24.0 || !(r["ttft"].(float64) >= 5) {
		t.Errorf("%v", r)
	}
	var rows []worker.Row
	for _, a := range e.attached {
		if a.Name == RepeatsFile {
			if err := json.Unmarshal(a.Data, &rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	// The interval of three values is 4.303 standard deviations / sqrt(3) wide on each side.
	mean, sq := 0.0, 0.0
	for _, one := range rows {
		mean += one["latency"].(float64) / 3
	}
	for _, one := range rows {
		sq += math.Pow(one["latency"].(float64)-mean, 2)
	}
	if want := 4.30265 * math.Sqrt(sq/2) / math.Sqrt(3); !(math.Abs(r["latency_ci95"].(float64)-want) <= 1e-4*want) ||
		!(math.Abs(r["latency"].(float64)-mean) <= 1e-9) {
		t.Errorf("%v +- %v, want %v +- %v", r["latency"], r["latency_ci95"], mean, want)
	}
}
