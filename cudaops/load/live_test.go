package load

import (
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
