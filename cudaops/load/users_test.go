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

// TestPrefillConcurrency allows only one request at a time to wait for its first token.
func TestPrefillConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quick()
		s.Concurrency, s.PrefillConcurrency, s.Requests = 4, 1, 8
		res, recs := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond, ITL: 50 * time.Millisecond}), s,
			Options{})
		if res.Profiling.Summary.Succeeded != 8 {
			t.Fatalf("%+v", res.Profiling.Summary.Errors)
		}
		slices.SortFunc(recs, func(a, b aiperf.Record) int { return int(a.Start - b.Start) })
		for i := 1; i < len(recs); i++ {
			if first := recs[i-1].Times[0]; recs[i].Start < first {
				t.Errorf("request %d was sent %v before the first token of the one before it", i,
					time.Duration(first-recs[i].Start))
			}
		}
		near(t, "lag", avg(t, res.Profiling.Summary, "send_lag"), 0)
		if got := avg(t, res.Profiling.Summary, "effective_prefill_concurrency"); !(got <= 1) {
			t.Errorf("%v requests were filled in at once", got)
		}
	})
}

// TestReservedRequestsAreSent checks that the requests which wait for a place when the last one is reserved are sent.
func TestReservedRequestsAreSent(t *testing.T) {
	for name, set := range map[string]func(*Settings){
		"prefill_concurrency": func(s *Settings) { s.Concurrency, s.PrefillConcurrency = 7, 2 },
		"users":               func(s *Settings) { s.Users, s.RequestRate, s.Concurrency = 7, 100, 2 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := quick()
				s.Concurrency, s.Requests, s.Turns = 0, 20, 2
				set(&s)
				res, _ := start(t, server(t, loadtest.Options{TTFT: 100 * time.Millisecond}), s, Options{})
				if n := res.Profiling.Summary.Succeeded; n != 20 {
					t.Errorf("%d of 20 requests succeeded, ended by %s", n, res.EndedBy)
				}
			})
		})
	}
}

// TestUsers checks that users send their turns at equal intervals, independent of response times.
func TestUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := quick()
		s.Concurrency, s.Requests, s.Users, s.RequestRate, s.Turns = 0, 40, 4, 2, 4
		res, recs := start(t, server(t, loadtest.Options{TTFT: 300 * time.Millisecond, ITL: 10 * time.Millisecond}), s,
			Options{})
		if res.Profiling.Summary.Succeeded != 40 {
			t.Fatalf("%+v", res.Profiling.Summary.Errors)
		}
		slices.SortFunc(recs, func(a, b aiperf.Record) int { return int(a.Start - b.Start) })
		for i, r := range recs {
			if at := time.Duration(r.Start - recs[0].Start); at != time.Duration(i)*500*time.Millisecond {
				t.Errorf("request %d was sent after %v", i, at)
			}
		}
		turns := map[string]int{}
		for _, r := range recs {
			turns[r.Correlation]++
		}
		// The first users start with one, two, three and four turns left.
		if first := turns[recs[0].Correlation]; first != 1 || turns[recs[1].Correlation] != 2 ||
			turns[recs[3].Correlation] != 4 {
			t.Errorf("turns of the first users: %v", turns)
		}
	})
	s := quick()
	s.Users = 2
	if err := s.Settle(); err == nil || !strings.Contains(err.Error(), "request_rate") {
		t.Errorf("users without a rate: %v", err)
	}
}
