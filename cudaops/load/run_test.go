package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
)

func server(t *testing.T, o loadtest.Options) *mock {
	t.Helper()
	o.Truth = true
	s, err := loadtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &mock{Server: s}
}

// quick returns settings of a short run against a mock server.
func quick() Settings {
	s := DefaultSettings()
	s.URL, s.Model = "mock:80", "mock"
	s.ISL, s.OSL = 10, 8
	s.Concurrency, s.Requests = 4, 16
	return s
}

// start runs load inside a synctest bubble, where time is virtual and exact.
func start(t *testing.T, srv *mock, s Settings, o Options) (*Traffic, []aiperf.Record) {
	t.Helper()
	var recs []aiperf.Record
	if o.Dial == nil {
		o.Dial = srv.Dial
	}
	o.Record = func(r *aiperf.Record) {
		c := *r
		c.Times = append([]int64(nil), r.Times...)
		recs = append(recs, c)
	}
	res, err := Run(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Close()
	srv.Wait()
	return res, recs
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6) { // NaN must fail too
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func avg(t *testing.T, s *aiperf.Summary, tag string) float64 {
	t.Helper()
	m, ok := s.Get(tag)
	if !ok {
		t.Fatalf("there is no %s", tag)
	}
	return m.Stats["avg"]
}

func TestExactTimes(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(message string) []string
		first float64 // ms until the first token that is not reasoning
	}{
		{"plain", nil, 200},
		{"role first", roleFirst, 200},
		{"reasoning", reasons("reasoning_content"), 260},
		{"reasoning by its other name", reasons("reasoning"), 260},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := loadtest.Options{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond}
				srv := server(t, o)
				srv.edit = c.edit
				res, recs := start(t, srv, quick(), Options{})
				s := res.Profiling.Summary
				if s.Succeeded != 16 || s.Failed != 0 {
					t.Fatalf("%d succeeded, %d failed: %v", s.Succeeded, s.Failed, s.Errors)
				}
				near(t, "TTFT", avg(t, s, "time_to_first_token"), 200)
				near(t, "TTST", avg(t, s, "time_to_second_token"), 20)
				near(t, "ITL", avg(t, s, "inter_token_latency"), 20)
				near(t, "ICL", avg(t, s, "inter_chunk_latency"), 20)
				near(t, "latency", avg(t, s, "request_latency"), 340)
				near(t, "OSL", avg(t, s, "output_sequence_length"), 8)
				near(t, "ISL", avg(t, s, "input_sequence_length"), 10)
				near(t, "per user", avg(t, s, "output_token_throughput_per_user"), 50)
				// Four at a time, four times: one window for all rates.
				near(t, "duration", avg(t, s, "benchmark_duration"), 4*0.340)
				near(t, "requests/s", avg(t, s, "request_throughput"), 16/1.36)
				near(t, "tokens/s", avg(t, s, "output_token_throughput"), 128/1.36)
				near(t, "concurrency", avg(t, s, "effective_concurrency"), 4)
				near(t, "lag", avg(t, s, "send_lag"), 0)
				near(t, "prefilled tokens", avg(t, s, "effective_prefill_throughput")*1.36, 160)
				near(t, "decoded tokens", avg(t, s, "effective_decode_throughput")*1.36, 112)
				near(t, "both", avg(t, s, "effective_total_throughput")*1.36, 272)
				near(t, "decoded while decoding", avg(t, s, "active_decode_throughput"), 4*7/0.140)
				near(t, "first output", avg(t, s, "time_to_first_output_token"), c.first)
				for _, r := range recs {
					if len(r.Times) != 8 {
						t.Errorf("%d messages", len(r.Times))
					}
				}
			})
		})
	}
}

// piecewise sends written data in pieces of 60 bytes, 1 ms apart.
type piecewise struct{ net.Conn }

func (c piecewise) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		k := min(60, len(b))
		if _, err = c.Conn.Write(b[:k]); err == nil {
			n += k
		}
		if b = b[k:]; len(b) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return n, err
}

func TestMessageTimeIsTheReadThatCompletesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := loadtest.Options{TTFT: 100 * time.Millisecond, ITL: 50 * time.Millisecond}
		set := quick()
		set.Requests, set.Concurrency, set.OSL = 1, 1, 2
		srv := server(t, o)
		dial := func(context.Context, string, string) (net.Conn, error) {
			client, end := net.Pipe()
			go srv.Handle(piecewise{end})
			return client, nil
		}
		res, recs := start(t, srv, set, Options{Dial: dial})
		if res.Profiling.Summary.Succeeded != 1 {
			t.Fatal(res.Profiling.Summary.Errors)
		}
		// A message consists of several pieces. The last one, with the event's empty line, arrives some
		// milliseconds after the first.
		got := time.Duration(recs[0].Times[0] - recs[0].Start)
		if got <= 100*time.Millisecond || got >= 105*time.Millisecond || got%time.Millisecond != 0 {
			t.Errorf("the first token came after %v", got)
		}
	})
}

func TestResponsesWithoutStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Streaming = false
		res, _ := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond}), set,
			Options{})
		s := res.Profiling.Summary
		near(t, "latency", avg(t, s, "request_latency"), 170)
		near(t, "OSL", avg(t, s, "output_sequence_length"), 8)
		for _, tag := range []string{"time_to_first_token", "inter_token_latency", "inter_chunk_latency"} {
			if _, ok := s.Get(tag); ok {
				t.Errorf("an answer that is no stream has %s", tag)
			}
		}
	})
}

func TestCompletionsWithTokenIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.EndpointType, set.Prompt, set.ISL, set.ISLStdDev = "completions", PromptIDs, 50, 10
		srv := server(t, loadtest.Options{})
		_, recs := start(t, srv, set, Options{})
		truth := map[string]loadtest.Truth{}
		for _, tr := range srv.Truths() {
			truth[tr.ID] = tr
		}
		for _, r := range recs {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := truth[r.ID]; got.Prompt != r.Input || got.Asked != 8 {
				t.Errorf("the server got %d tokens and a limit of %d, the client counted %d", got.Prompt, got.Asked, r.Input)
			}
		}
	})
}

func TestWarmupIsExcluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.WarmupRequests = 5
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond})
		res, recs := start(t, srv, set, Options{})
		if n := srv.Requests(); n != 21 {
			t.Errorf("the server got %d requests", n)
		}
		if res.Warmup.Summary.Requests != 5 || res.Profiling.Summary.Requests != 16 {
			t.Errorf("%d and %d", res.Warmup.Summary.Requests, res.Profiling.Summary.Requests)
		}
		for _, r := range recs {
			if !r.Warmup && (r.Start < res.Profiling.From || r.Finish > res.Profiling.To) {
				t.Error("a request lies outside of the window")
			}
			if r.Warmup && r.Finish > res.Profiling.From {
				t.Error("a warm-up request ended in the window")
			}
		}
	})
}

func TestCancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Requests, set.CancelShare, set.CancelDelay = 200, 0.25, 0.01
		res, recs := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond}), set, Options{})
		s := res.Profiling.Summary
		if s.Cancelled < 30 || s.Cancelled > 70 || s.Failed != s.Cancelled || s.Succeeded+s.Cancelled != 200 {
			t.Errorf("%d of 200 were cancelled, %d failed", s.Cancelled, s.Failed)
		}
		for _, r := range recs {
			if r.Cancelled && (r.Err.Code != 499 || r.Finish-r.Start != int64(10*time.Millisecond)) {
				t.Errorf("%+v after %v", r.Err, time.Duration(r.Finish-r.Start))
			}
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Timeout, set.Requests = 2, 4
		hang := loadtest.Fault{Kind: loadtest.FaultHang, Every: 2, After: 3}
		res, _ := start(t, server(t, loadtest.Options{Faults: []loadtest.Fault{hang}}), set, Options{})
		s := res.Profiling.Summary
		if s.Failed != 2 || len(s.Errors) != 1 || s.Errors[0].Type != aiperf.TypeTimeout {
			t.Errorf("%+v", s.Errors)
		}
	})
}

func TestMultiTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.Requests, set.Turns, set.TurnDelay, set.OSL, set.WarmupRequests = 1, 3, 3, 2, 4, 0
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond})
		_, recs := start(t, srv, set, Options{})
		truth := srv.Truths()
		if len(truth) != 3 {
			t.Fatalf("%d requests", len(truth))
		}
		for i, tr := range truth {
			// Each turn adds 10 words and the previous response of 4 words.
			if tr.Prompt != 10+i*14 {
				t.Errorf("turn %d has %d tokens", i, tr.Prompt)
			}
		}
		for i := 1; i < 3; i++ {
			if recs[i].Correlation != recs[0].Correlation || recs[i].Turn != i {
				t.Errorf("turn %d: %+v", i, recs[i])
			}
			if think := time.Duration(recs[i].Start - recs[i-1].Finish); think != 2*time.Second {
				t.Errorf("it thought for %v", think)
			}
		}
	})
}

// TestLoadsOfADurationHaveDifferentPrompts checks that a load with many requests repeats no prompt.
func TestLoadsOfADurationHaveDifferentPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quick()
		s.Requests, s.Duration, s.Concurrency, s.OSL = 0, 1, 100, 1
		_, recs := start(t, server(t, loadtest.Options{TTFT: 8 * time.Millisecond}), s, Options{})
		seen := map[string]bool{}
		for _, r := range recs {
			seen[r.Conversation] = true
		}
		if len(recs) < 12_000 || len(seen) != len(recs) {
			t.Errorf("%d requests of %d conversations", len(recs), len(seen))
		}
	})
}

// TestLastRequestEndsPauses checks that a phase ends with its last request, and not with a pause before a turn that is
// not sent.
func TestLastRequestEndsPauses(t *testing.T) {
	for rate, took := range map[float64]time.Duration{0: 100 * time.Millisecond, 10: 400 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			s := quick()
			s.RequestRate, s.Arrival, s.Requests, s.Turns, s.TurnDelay, s.OSL = rate, "constant", 4, 3, 60, 1
			res, _ := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond}), s, Options{})
			if p := res.Profiling; time.Duration(p.To-p.From) != took || p.Summary.Succeeded != 4 {
				t.Errorf("at a rate of %v, the phase of %d requests took %v, want %v", rate, p.Summary.Succeeded,
					time.Duration(p.To-p.From), took)
			}
		})
	}
}

// TestQueueTimesOfServers checks that the means cover only the profiling phase.
func TestQueueTimesOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := queued(t)
		s := quick()
		s.Requests, s.WarmupRequests = 5, 4
		res, err := Run(t.Context(), s, Options{Dial: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		// Requests 5 to 9 waited 7 times as long as the first, on average.
		near(t, "queue", exported(res, "server_queue"), 21)
		near(t, "prefill", exported(res, "server_prefill"), 42)
		srv = queued(t)
		srv.tensorRT = true
		if res, err = Run(t.Context(), s, Options{Dial: srv.Dial}); err != nil {
			t.Fatal(err)
		}
		near(t, "queue of TensorRT-LLM", exported(res, "server_queue"), 21)
		near(t, "prefill of TensorRT-LLM", exported(res, "server_prefill"), 42)
		s.WarmupRequests = 0
		if res, err = Run(t.Context(), s, Options{Dial: queued(t).Dial}); err != nil {
			t.Fatal(err)
		}
		near(t, "queue of a server that has had no request before", exported(res, "server_queue"), 9)
		s.WarmupRequests = 4
		quiet, err := Run(t.Context(), s, Options{Dial: cached(t).Dial})
		if err != nil {
			t.Fatal(err)
		}
		if !math.IsNaN(exported(quiet, "server_queue")) || !math.IsNaN(exported(quiet, "server_prefill")) {
			t.Errorf("a server without queue times: %v", quiet.Exported)
		}
	})
}

func TestResetOfOneServerIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with, without := cached(t), server(t, loadtest.Options{})
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "without:80" {
				return without.Dial(ctx, network, address)
			}
			return with.Dial(ctx, network, address)
		}
		for name, want := range map[string]bool{"with:80": true, "without:80": false} {
			s := quick()
			s.URLs = []string{name, "with:80"}
			res, err := Run(t.Context(), s, Options{Dial: dial})
			if err != nil || res.CacheReset != want {
				t.Errorf("%s: %v, error %v", name, res.CacheReset, err)
			}
		}
	})
}

func TestBriefestDurationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quick()
		s.Requests, s.Duration, s.Grace = 0, 1e-10, 1
		res, err := Run(t.Context(), s, Options{Dial: server(t, loadtest.Options{TTFT: time.Millisecond}).Dial})
		if err == nil && res.EndedBy != "duration" || err != nil && !errors.Is(err, errStopped) {
			t.Errorf("%+v, error %v", res, err)
		}
	})
}

func TestLoadPointsHaveDifferentPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := cached(t)
		first, _ := func() (*Traffic, error) {
			o := Options{Salt: 1, Dial: srv.Dial}
			s := quick()
			s.CacheReset = ResetNever
			return Run(t.Context(), s, o)
		}()
		near(t, "hit rate", exported(first, "cache_hit_rate"), 0)
		s := quick()
		s.CacheReset = ResetNever
		again, err := Run(t.Context(), s, Options{Salt: 2, Dial: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "hit rate of another load point", exported(again, "cache_hit_rate"), 0)
		same, err := Run(t.Context(), s, Options{Salt: 2, Dial: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "hit rate of the same one", exported(same, "cache_hit_rate"), 1)
		s.CacheReset = ResetRequire
		reset, err := Run(t.Context(), s, Options{Salt: 2, Dial: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "hit rate after a reset", exported(reset, "cache_hit_rate"), 0)
		if !reset.CacheReset || srv.resets != 1 {
			t.Errorf("%v, %d resets", reset.CacheReset, srv.resets)
		}
		s.Entries = 4
		few, err := Run(t.Context(), s, Options{Salt: 2, Dial: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "hit rate of 4 prompts for 16 requests", exported(few, "cache_hit_rate"), 0.75)
		srv.Close()
		srv.Wait()
	})
}

func TestOpenConversationsHaveDifferentPrompts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server(t, loadtest.Options{Truth: true, TTFT: time.Millisecond})
		srv.cache = true
		s := quick()
		s.Turns = 8
		res, _ := start(t, srv, s, Options{})
		near(t, "hit rate of 4 conversations with 4 of 8 turns", exported(res, "cache_hit_rate"), 0)
	})
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		srv := server(t, loadtest.Options{TTFT: 300 * time.Millisecond})
		set := quick()
		set.Requests, set.OSL = 1000, 1
		res, err := Run(ctx, set, Options{Dial: srv.Dial})
		if err != nil {
			t.Fatal(err)
		}
		if !res.Interrupted || res.Profiling.Summary.Succeeded != 12 {
			t.Errorf("interrupted %v, %d succeeded", res.Interrupted, res.Profiling.Summary.Succeeded)
		}
		srv.Close()
		srv.Wait()
	})
}

// TestTokenIDs uses a server without a tokenizer, which sends ids and no text.
func TestTokenIDs(t *testing.T) {
	for _, streaming := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, SkipTokenizer: true})
			srv.edit = withoutUsage
			s := quick()
			s.EndpointType, s.Prompt, s.Streaming = "completions", PromptIDs, streaming
			s.ExtraInputs = map[string]json.RawMessage{"return_token_ids": json.RawMessage("true")}
			res, _ := start(t, srv, s, Options{})
			sum := res.Profiling.Summary
			if sum.Failed != 0 || !res.TokenIDs {
				t.Fatalf("%d failed (%v), ids counted: %v", sum.Failed, sum.Errors, res.TokenIDs)
			}
			near(t, "output length", avg(t, sum, "output_sequence_length"), 8)
			if streaming {
				near(t, "TTFT", avg(t, sum, "time_to_first_token"), 100)
				near(t, "ITL", avg(t, sum, "inter_token_latency"), 10)
			}
		})
	}
}

// TestFailedRequestsAreOpen checks that failed requests are part of the mean number of open requests.
func TestFailedRequestsAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.OSL, set.Requests, set.CancelShare, set.CancelDelay = 1, 400, 0.5, 0.2
		srv := server(t, loadtest.Options{TTFT: 201 * time.Millisecond})
		res, _ := start(t, srv, set, Options{})
		s := res.Profiling.Summary
		if s.Succeeded < 150 || s.Failed < 150 {
			t.Fatalf("%d succeeded, %d failed", s.Succeeded, s.Failed)
		}
		if got := avg(t, s, "effective_concurrency"); !(got > 3.95 && got <= 4) { // the last requests end one by one
			t.Errorf("%v requests were open, want 4", got)
		}
	})
}

// TestWarmupOfADataset checks a load whose number of requests follows from its file, with a shorter warm-up than its
// concurrency.
func TestWarmupOfADataset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prompts.txt")
	if err := os.WriteFile(path, []byte("a\nb\nc\nd\ne\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := quick()
		s.Dataset, s.Requests, s.Concurrency, s.WarmupRequests = path, 0, 4, 1
		res, _ := start(t, server(t, loadtest.Options{}), s, Options{})
		if n := res.Profiling.Summary.Succeeded; n != 5 {
			t.Errorf("%d of 5 requests succeeded", n)
		}
	})
}

// TestBatchesOfADataset checks that a load of batches sends each prompt of its file once, or reports why it cannot.
func TestBatchesOfADataset(t *testing.T) {
	for _, c := range []struct {
		text            string
		batch, sessions int
		want            string
	}{
		{`{"text": "a"}`, 2, 0, "[6 3]"},
		{`{"text": "a"}`, 2, 4, "[4 2]"},
		{`{"text": "a"}`, 4, 0, "batch is 4, and prompts.jsonl has 6 prompts"},
		{`{"text": "a"}`, 4, 2, "batch is 4; requests (0), sessions (2)"},
		{`{"text": "a", "session_id": 1}`, 1, 0, "conversations of prompts.jsonl have several turns"},
	} {
		path := filepath.Join(t.TempDir(), "prompts.jsonl")
		if err := os.WriteFile(path, []byte(strings.Repeat(c.text+"\n", 6)), 0o644); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			s := quick()
			s.Dataset, s.Requests, s.Concurrency, s.Batch, s.Sessions = path, 0, 0, c.batch, c.sessions
			srv := server(t, loadtest.Options{TTFT: time.Millisecond})
			res, err := Run(t.Context(), s, Options{Dial: srv.Dial})
			got := fmt.Sprint(err)
			if err == nil {
				got = fmt.Sprint([]int{res.Profiling.Summary.Succeeded, len(res.Profiling.Batches)})
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%+v: %s", c, got)
			}
			srv.Close()
			srv.Wait()
		})
	}
}

// exported returns a column that a server's metrics have, or NaN.
func exported(res *Traffic, column string) float64 {
	if v, ok := res.Exported[column]; ok {
		return v
	}
	return math.NaN()
}
