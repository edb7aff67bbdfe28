package load

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/loadtest"
)

// TestProgressOfEachSecond checks on a virtual clock that each report covers only the responses of its second.
func TestProgressOfEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.Requests, set.OSL = 4, 64, 5
		srv := server(t, loadtest.Options{TTFT: 160 * time.Millisecond, ITL: 10 * time.Millisecond})
		var seen []Progress
		start(t, srv, set, Options{Progress: func(p Progress) { seen = append(seen, p) }})
		if len(seen) != 3 {
			t.Fatalf("%d reports in 3.2 s", len(seen))
		}
		for i, p := range seen {
			if p.Elapsed != time.Duration(i+1)*time.Second {
				t.Errorf("%+v", p)
			}
			near(t, "time to first token", p.TTFT, 160)
		}
	})
}

// TestProgressOfOpenRequests checks that the messages of responses that have not ended are reported.
func TestProgressOfOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.Requests, set.OSL = 2, 2, 5
		srv := server(t, loadtest.Options{TTFT: 500 * time.Millisecond, ITL: time.Second})
		var tokens, open []int64
		start(t, srv, set, Options{Progress: func(p Progress) {
			tokens, open = append(tokens, p.Tokens), append(open, p.InFlight)
		}})
		if want := []int64{2, 4, 6, 8}; !slices.Equal(tokens, want) || !slices.Equal(open, []int64{2, 2, 2, 2}) {
			t.Errorf("%v messages of %v open requests, want %v of 2", tokens, open, want)
		}
	})
}
