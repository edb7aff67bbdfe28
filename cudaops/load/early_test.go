package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
	"aicplan/cudaops/load/workload"
	"aicplan/cudaops/worker"
)

// TestLoadEndsEarly checks that each limit of errors ends the load at the right request, and that the result names it.
func TestLoadEndsEarly(t *testing.T) {
	for _, c := range []struct {
		name     string
		set      func(*Settings)
		fault    loadtest.Fault
		requests int
	}{
		{"max_errors", func(s *Settings) { s.MaxErrors = 5 }, loadtest.Fault{Kind: loadtest.FaultStatus, Every: 4}, 20},
		{"max_error_rate", func(s *Settings) { s.MaxErrorRate = 0.3 }, loadtest.Fault{Kind: loadtest.FaultStatus, Every: 3},
			21},
		{"max_error_rate", func(s *Settings) { s.MaxErrorRate = 0.01 }, loadtest.Fault{Kind: loadtest.FaultStatus, First: 1},
			20},
		{"max_consecutive_errors", func(s *Settings) { s.MaxConsecutiveErrors = 7 },
			loadtest.Fault{Kind: loadtest.FaultStatus, First: 1000}, 7},
		{"requests", func(s *Settings) { s.MaxErrors, s.MaxErrorRate, s.MaxConsecutiveErrors = 51, 0.6, 2 },
			loadtest.Fault{Kind: loadtest.FaultStatus, Every: 2}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := quick()
				set.Concurrency, set.Requests = 1, 100
				c.set(&set)
				srv := server(t, loadtest.Options{TTFT: 10 * time.Millisecond, Faults: []loadtest.Fault{c.fault}})
				res, _ := start(t, srv, set, Options{})
				// The next request may have been sent when the limit was reached.
				if n := res.Profiling.Summary.Requests; res.EndedBy != c.name || n < c.requests || n > c.requests+1 {
					t.Errorf("it ended by %s after %d requests, want %s after %d", res.EndedBy, n, c.name, c.requests)
				}
			})
		})
	}
}

// TestOverSaturation checks that a rate above what the server completes ends the load, and one below it does not.
func TestOverSaturation(t *testing.T) {
	for rate, want := range map[float64]string{15: "over_saturation", 9: "duration"} {
		synctest.Test(t, func(t *testing.T) {
			set := quick()
			set.Concurrency, set.RequestRate, set.OSL = 0, rate, 1
			set.Requests, set.Duration, set.OverSaturation = 0, 120, 20
			srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond, Slots: 1})
			res, _ := start(t, srv, set, Options{})
			if took := res.Profiling.To - res.Profiling.From; res.EndedBy != want ||
				want == "over_saturation" && time.Duration(took) > 60*time.Second {
				t.Errorf("rate %v ended by %s after %v", rate, res.EndedBy, time.Duration(took))
			}
		})
	}
}

// TestQueueDoesNotGrowAfterTheLastRequest checks a load whose requests are all sent long before the first response.
func TestQueueDoesNotGrowAfterTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.RequestRate, set.OSL = 0, 20, 1
		set.Requests, set.OverSaturation = 100, 15
		srv := server(t, loadtest.Options{TTFT: 30 * time.Second})
		res, _ := start(t, srv, set, Options{})
		if s := res.Profiling.Summary; res.EndedBy != "requests" || s.Succeeded != 100 {
			t.Errorf("%d requests succeeded, %d were cut; the load ended by %s", s.Succeeded, s.Cut, res.EndedBy)
		}
	})
}

// TestRandomArrivalsDoNotSaturate checks loads on a server that answers at once, or late but every request.
func TestRandomArrivalsDoNotSaturate(t *testing.T) {
	for name, change := range map[string]func(*Settings, *loadtest.Options){
		"poisson":  func(s *Settings, _ *loadtest.Options) { s.Seed, s.Duration = 2, 300 },
		"bursts":   func(s *Settings, _ *loadtest.Options) { s.Arrival, s.Smoothness, s.Duration = workload.Gamma, 0.1, 60 },
		"sessions": func(s *Settings, o *loadtest.Options) { s.Sessions, o.TTFT = 100, 30*time.Second },
		"long responses": func(s *Settings, o *loadtest.Options) {
			s.OverSaturation, s.Duration, o.TTFT = 12, 40, 8*time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set, o := quick(), loadtest.Options{}
				set.Concurrency, set.Requests, set.OSL, set.RequestRate, set.OverSaturation = 0, 0, 1, 50, 5
				change(&set, &o)
				if res, _ := start(t, server(t, o), set, Options{}); res.EndedBy == "over_saturation" {
					t.Errorf("the load ended by %s after %d requests", res.EndedBy, res.Profiling.Summary.Requests)
				}
			})
		})
	}
}

// TestStopKeepsFinishedRequests checks that a load which the user ends has the requests that ended before.
func TestStopKeepsFinishedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
		defer cancel()
		set := quick()
		set.Requests, set.OSL = 1000, 1
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond})
		res, _ := start(t, srv, set, Options{Stop: stop})
		if s := res.Profiling.Summary; s.Succeeded != 40 || s.Cut != 4 || s.Failed != 0 || res.EndedBy != "interrupted" {
			t.Errorf("%d succeeded, %d were cut, %d failed; it ended by %s", s.Succeeded, s.Cut, s.Failed, res.EndedBy)
		}
		near(t, "concurrency", avg(t, res.Profiling.Summary, "effective_concurrency"), 4) // also of those that were cut
	})
}

// TestInterruptedCaseHasARowAndFiles sends the process an interrupt during a case.
func TestInterruptedCaseHasARowAndFiles(t *testing.T) {
	_, addr := listen(t, loadtest.Options{TTFT: time.Millisecond})
	h := NewHost(worker.Init{Options: map[string]any{"url": addr, "model": "m"}, Spool: t.TempDir()})
	h.patience = 0
	var out emitter
	h.Watch = func(Progress) { _ = syscall.Kill(syscall.Getpid(), syscall.SIGINT) }
	row, _, err := h.Load(t.Context(), worker.Case{ID: "abcdef0123456789", Op: "chat",
		Params: []byte(`{"duration": 600}`)}, &out)
	if err != nil || row["ended_by"] != "interrupted" || row["succeeded"].(int) == 0 || row["failed"] != 0 {
		t.Fatalf("%v, %v", row, err)
	}
	for _, a := range out.attached {
		if a.Name != aiperf.SummaryJSON {
			continue
		}
		data, err := os.ReadFile(filepath.Join(h.init.Spool, a.File))
		if err != nil || !strings.Contains(string(data), `"was_cancelled": true`) {
			t.Errorf("%v\n%s", err, data)
		}
	}
	if len(out.attached) < 5 {
		t.Errorf("%d files", len(out.attached))
	}
}

// raw is a server that responds with the same bytes to each request. The last byte closes the connection.
func raw(t *testing.T, respond func(w http.ResponseWriter, r *http.Request)) string {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Method != http.MethodPost || r.ContentLength <= 0 {
			http.NotFound(w, r)
			return
		}
		respond(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

const chunk = `data: {"choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"

// TestPointsWithoutSuccess checks the class of a load whose requests all fail, and that its files are kept.
func TestPointsWithoutSuccess(t *testing.T) {
	for class, respond := range map[string]func(w http.ResponseWriter, r *http.Request){
		worker.ClassTimeout: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		worker.ClassUnsupportedConfig: func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, "/x", http.StatusTemporaryRedirect)
		},
		worker.ClassFrameworkBug: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
		worker.ClassTransient:    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(class, func(t *testing.T) {
			e := measure(t, map[string]any{"url": raw(t, respond), "model": "m", "request_timeout": 0.2}, `{}`, "chat",
				`{"requests": 3}`)
			if e.failure == nil || e.failure.Class != class || !strings.Contains(e.failure.Message, "all 3 requests failed") {
				t.Errorf("%+v", e.failure)
			}
			files := map[string]string{}
			for _, a := range e.attached {
				files[a.Name] = string(a.Data)
			}
			if strings.Count(files[aiperf.Records], "\n") != 3 ||
				!strings.Contains(files[aiperf.SummaryJSON], `"error_details"`) {
				t.Errorf("%v", files)
			}
		})
	}
}

// TestNoResponseBeforeTheEnd checks the failure and the log of a load that ends before a response does.
func TestNoResponseBeforeTheEnd(t *testing.T) {
	url := raw(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	e := measure(t, map[string]any{"url": url, "model": "m"}, `{}`, "chat", `{"duration": 0.05, "grace": 0.05}`)
	if e.failure == nil || e.failure.Class != worker.ClassTimeout ||
		!strings.Contains(e.failure.Message, "the load ended by duration before any of 1 requests had ended; a longer") {
		t.Errorf("%+v", e.failure)
	}
	if log := string(e.file(t, aiperf.Records)); !strings.Contains(log, `"was_cancelled":true`) {
		t.Errorf("%q", log)
	}
}

// one runs a single request against a server and returns its record.
func one(t *testing.T, url string, change func(*Settings)) aiperf.Record {
	set := quick()
	set.URL, set.Requests, set.Concurrency = url, 1, 1
	if change != nil {
		change(&set)
	}
	var got aiperf.Record
	res, err := Run(t.Context(), set, Options{Record: func(r *aiperf.Record) {
		got = *r
		got.Times = append([]int64(nil), r.Times...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	_ = res
	return got
}

// TestResponseEndsAtDone checks that nothing after [DONE] counts, and that a body which does not end is no error.
func TestResponseEndsAtDone(t *testing.T) {
	url := raw(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, strings.Repeat(chunk, 5)+"data: [DONE]\n\n"+strings.Repeat(chunk, 10))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	rec := one(t, url, nil)
	if rec.Err != nil || len(rec.Times) != 5 || rec.Finish-rec.Start > int64(drainTime)/2 {
		t.Errorf("%d messages after %v: %+v", len(rec.Times), time.Duration(rec.Finish-rec.Start), rec.Err)
	}
}

// TestCancelledAtOnceIsSent checks that a request which is cancelled without delay reaches the server.
func TestCancelledAtOnceIsSent(t *testing.T) {
	got := make(chan string, 1)
	url := raw(t, func(_ http.ResponseWriter, r *http.Request) {
		got <- r.Method
		<-r.Context().Done()
	})
	rec := one(t, url, func(s *Settings) { s.CancelShare = 1 })
	select {
	case <-got:
	case <-t.Context().Done():
		t.Fatal("the request did not reach the server")
	}
	if rec.Err == nil || rec.Err.Type != aiperf.TypeCancelled || !rec.Cancelled || rec.Cut || rec.Sent == 0 {
		t.Errorf("%+v: %+v", rec, rec.Err)
	}
}

// TestContentOfParts checks a response whose content is a list of parts.
func TestContentOfParts(t *testing.T) {
	url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}]}`+
			"\n\ndata: [DONE]\n\n")
	})
	if rec := one(t, url, nil); rec.Err != nil || len(rec.Times) != 1 {
		t.Errorf("%+v", rec.Err)
	}
	set := quick()
	set.ExtraInputs = map[string]json.RawMessage{"n": json.RawMessage("2")}
	if err := set.Settle(); err == nil || !strings.Contains(err.Error(), "extra input n is 2") {
		t.Error(err)
	}
}

// TestTokensOfSomeResponsesAreUnknown uses a server that counts the tokens of every second response. Sums of the known
// ones would be half of what was generated.
func TestTokensOfSomeResponsesAreUnknown(t *testing.T) {
	var n atomic.Int64
	url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, chunk+chunk)
		if n.Add(1)%2 == 0 {
			fmt.Fprint(w, `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`+"\n\n")
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	e := measure(t, map[string]any{"url": url, "model": "m"}, `{}`, "chat", `{"requests": 4}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	row := e.rows[0]
	if row["output_length"] != 2.0 || row["request_throughput"] == nil {
		t.Errorf("%v", row)
	}
	for _, name := range []string{"throughput", "input_throughput", "total_throughput"} {
		if v, ok := row[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	if files := string(e.file(t, aiperf.SummaryJSON)); strings.Contains(files, `"total_osl"`) ||
		strings.Contains(files, `"effective_decode_throughput"`) {
		t.Errorf("%s", files)
	}
}

// TestUncountedReasoningIsUnknown uses servers that send reasoning, with and without the number of its tokens.
func TestUncountedReasoningIsUnknown(t *testing.T) {
	for details, known := range map[string]bool{``: false, `,"completion_tokens_details":{"reasoning_tokens":0}`: false,
		`,"completion_tokens_details":{"reasoning_tokens":3}`: true} {
		url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, `data: {"choices":[{"delta":{"reasoning_content":"r"}}]}`+"\n\n"+chunk+
				`data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5`+details+"}}\n\ndata: [DONE]\n\n")
		})
		e := measure(t, map[string]any{"url": url, "model": "m"}, `{}`, "chat", `{"requests": 4}`)
		if e.failure != nil || e.rows[0]["output_length"] != 5.0 {
			t.Fatalf("%+v %v", e.failure, e.rows)
		}
		for _, name := range []string{"output_token_count", "total_output_tokens", "reasoning_token_count"} {
			for _, file := range []string{aiperf.SummaryJSON, aiperf.SummaryCSV, aiperf.Records} {
				if text := string(e.file(t, file)); file == aiperf.SummaryJSON && strings.Contains(text, name) != known ||
					!known && strings.Contains(text, name) {
					t.Errorf("%s with %q: %s", file, details, text)
				}
			}
		}
	}
}

// TestZeroUsageIsUnknown uses a server whose usage is 0, although it has sent output.
func TestZeroUsageIsUnknown(t *testing.T) {
	url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, chunk+chunk+
			`data: {"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`+"\n\ndata: [DONE]\n\n")
	})
	e := measure(t, map[string]any{"url": url, "model": "m"}, `{}`, "chat", `{"requests": 4, "osl": 2}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	row := e.rows[0]
	if row["token_source"] != "none" {
		t.Errorf("token_source is %v", row["token_source"])
	}
	for _, name := range []string{"throughput", "output_length", "input_length", "short_outputs"} {
		if v, ok := row[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// TestOneMessageHasNoTokenLatency checks that a response which arrives in one message keeps no limit of the time between
// tokens, which it does not show.
func TestOneMessageHasNoTokenLatency(t *testing.T) {
	url := raw(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices":[{"message":{"content":"a b c"}}],"usage":{"prompt_tokens":3,"completion_tokens":3}}`)
	})
	e := measure(t, map[string]any{"url": url, "model": "m"}, `{}`, "chat", `{"requests": 4, "slo": {"itl": 20}}`)
	if e.failure != nil {
		t.Fatalf("%+v", e.failure)
	}
	if row := e.rows[0]; row["itl"] != nil || row["ttft"] == nil || row["good_fraction"] != 0.0 {
		t.Errorf("itl is %v, ttft %v, good_fraction %v", row["itl"], row["ttft"], row["good_fraction"])
	}
}

// TestSetupErrorsAreNotTransient checks that a wrong trace is an error of the plan.
func TestSetupErrorsAreNotTransient(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(`{"input_length": 5, "hash_ids": [1, 2]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	e := measure(t, map[string]any{"url": "127.0.0.1:1", "model": "m"}, `{"load": {"trace": "`+path+`"}}`, "chat", `{}`)
	if e.failure == nil || e.failure.Class != worker.ClassUnsupportedConfig ||
		!strings.Contains(e.failure.Message, "trace.jsonl:1: 2 hash_ids for 5 tokens") {
		t.Errorf("%+v", e.failure)
	}
}

// TestMockServerAbortsQueuedRequestsOfClosedConnections checks that requests of a load that has ended do not delay
// those of the next.
func TestMockServerAbortsQueuedRequestsOfClosedConnections(t *testing.T) {
	srv, address := listen(t, loadtest.Options{Slots: 1, Truth: true,
		Faults: []loadtest.Fault{{Kind: loadtest.FaultHang, First: 1}}})
	send := func(i int) net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\n{\"prompt\": \"a\"}")
		for err == nil && srv.Requests() < i {
			runtime.Gosched()
		}
		return c
	}

	holder, queued := send(1), send(2)
	_, _ = queued.Close(), holder.Close()
	last := send(3)
	if _, err := io.ReadAll(io.LimitReader(last, 1)); err != nil {
		t.Fatal(err)
	}
	_ = last.Close()
	if truths := srv.Truths(); len(truths) != 3 || len(truths[1].Sent) != 0 {
		t.Errorf("%+v", truths)
	}
}
