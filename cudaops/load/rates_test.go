package load

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/loadtest"
)

// mostOpen returns the number of requests that were open at the same time. A request ends before another one starts at
// the same time.
func mostOpen(recs []aiperf.Record) (most int) {
	for _, r := range recs {
		n := 0
		for _, other := range recs {
			if other.Start <= r.Start && r.Start < other.Finish {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.RequestRate, set.Arrival, set.Requests = 0, 100, "constant", 50
		srv := server(t, loadtest.Options{TTFT: 300 * time.Millisecond})
		res, recs := start(t, srv, set, Options{})
		for i, r := range recs {
			if got := time.Duration(r.Start - res.Profiling.From); got != time.Duration(r.Number)*10*time.Millisecond {
				t.Fatalf("request %d (%d) started at %v", i, r.Number, got)
			}
		}
		if n := mostOpen(recs); n < 25 {
			t.Errorf("at most %d requests were open", n)
		}
	})
}

func TestRateWithCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.RequestRate, set.Arrival, set.Requests, set.OSL = 2, 100, "constant", 6, 1
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond})
		_, recs := start(t, srv, set, Options{})
		if n := mostOpen(recs); n != 2 {
			t.Errorf("%d requests were open at once", n)
		}
		last := recs[len(recs)-1]
		// Request 5 was due after 50 ms and could be sent after 200 ms. The wait is part of its effective
		// latency but not of the client's lag.
		if wait := last.Start - last.Credit; time.Duration(wait) != 160*time.Millisecond || last.Lag() != 0 {
			t.Errorf("it waited %v and lagged by %v", time.Duration(wait), last.Lag())
		}
	})
}

func TestRateWithRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.ConcurrencyRamp, set.RequestRate, set.Arrival = 4, 2, 1000, "constant"
		set.Requests, set.OSL = 40, 1
		res, recs := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond}), set, Options{})
		for i, want := range []int{1, 2, 3, 4} { // each half second
			from := res.Profiling.From + int64(i)*int64(500*time.Millisecond)
			part := slices.DeleteFunc(slices.Clone(recs), func(r aiperf.Record) bool {
				return r.Start < from || r.Start >= from+int64(500*time.Millisecond)
			})
			if n := mostOpen(part); n != want {
				t.Errorf("in half second %d, %d requests were open, want %d", i, n, want)
			}
		}
		for _, r := range recs {
			if r.Lag() != 0 {
				t.Errorf("request %d lagged by %v", r.Number, time.Duration(r.Lag()))
			}
		}
	})
}

func TestDurationAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Requests, set.Duration, set.Grace, set.Concurrency = 0, 1, 0.05, 2
		set.OSL = 1
		srv := server(t, loadtest.Options{TTFT: 300 * time.Millisecond})
		res, recs := start(t, srv, set, Options{})
		s := res.Profiling.Summary
		// Three rounds of two requests end within a second. The fourth has only 50 ms and is cut.
		if s.Succeeded != 6 || s.Cut != 2 || s.Requests != 6 || s.Failed != 0 || res.EndedBy != "duration" {
			t.Errorf("%d succeeded, %d were cut, it ended by %s: %+v", s.Succeeded, s.Cut, res.EndedBy, s.Errors)
		}
		// The cut requests are in no rate, and so is the grace in which only they were open.
		near(t, "duration", avg(t, s, "benchmark_duration"), 1)
		near(t, "phase", float64(res.Profiling.To-res.Profiling.From)/1e9, 1)
		if len(recs) != 8 {
			t.Errorf("%d records", len(recs))
		}
	})
}

// TestStalledServerCountsUntilTheEnd uses a server that sends nothing more after the first requests: they do not define
// the window alone, and the grace is no part of it.
func TestStalledServerCountsUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Requests, set.Duration, set.Grace, set.Concurrency = 0, 10, 30, 2
		srv := server(t, loadtest.Options{TTFT: time.Second, Slots: 2, Faults: []loadtest.Fault{{Kind: loadtest.FaultHang,
			Every: 2}}})
		res, _ := start(t, srv, set, Options{})
		s := res.Profiling.Summary
		if s.Cut != 2 || s.Succeeded == 0 {
			t.Fatalf("%d succeeded, %d were cut: %+v", s.Succeeded, s.Cut, s.Errors)
		}
		near(t, "duration", avg(t, s, "benchmark_duration"), 10)
	})
}

// TestBatches checks that a batch starts after the previous one has ended, and that its duration is that of
// its slowest request.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := server(t, loadtest.Options{TTFT: 100 * time.Millisecond, ITL: 10 * time.Millisecond, TokenSpread: 2})
		s := quick()
		s.Concurrency, s.Batch, s.Requests, s.WarmupRequests = 0, 4, 12, 8
		res, recs := start(t, srv, s, Options{})
		if n := mostOpen(recs); n != 4 {
			t.Errorf("%d requests were open at once, want 4", n)
		}
		if len(res.Warmup.Batches) != 2 || len(res.Profiling.Batches) != 3 {
			t.Fatalf("%d and %d batches, want 2 and 3", len(res.Warmup.Batches), len(res.Profiling.Batches))
		}
		for i, b := range res.Profiling.Batches {
			var last int64
			n := 0
			for _, r := range recs {
				if !r.Warmup && r.Start >= b.From && r.Finish <= b.To {
					n++
					last = max(last, r.Finish)
				}
			}
			if n != 4 || last != b.To {
				t.Errorf("batch %d has %d requests and ends at %d, want 4 and %d", i, n, b.To, last)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // the second batch is cut
		s := quick()
		s.Concurrency, s.Batch, s.Requests, s.Duration, s.Grace = 0, 4, 0, 0.15, 0.01
		res, _ := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond}), s, Options{})
		if p := res.Profiling; p.Summary.Cut != 4 || len(p.Batches) != 1 {
			t.Errorf("%d requests were cut, and there are %d batches; want 4 and 1", p.Summary.Cut, len(p.Batches))
		}
	})
	s := quick()
	s.Concurrency, s.Batch, s.Requests = 0, 4, 10
	if err := s.Settle(); err == nil || !strings.Contains(err.Error(), "multiples") {
		t.Errorf("half a batch: %v", err)
	}
}
