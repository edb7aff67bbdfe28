package load

import (
	"testing"
	"testing/synctest"
	"time"

	"aicplan/cudaops/load/loadtest"
)

// TestProgressIsOfTheAnswersSince checks on a virtual clock that the statistics of each second cover only
// responses of that second.
func TestProgressIsOfTheAnswersSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := quick()
		set.Concurrency, set.Requests, set.OSL = 4, 64, 5
		srv := server(t, loadtest.Options{TTFT: 160 * time.Millisecond, ITL: 10 * time.Millisecond})
		var seen []Progress
		start(t, srv, set, Options{Progress: func(p Progress) { seen = append(seen, p) }})
		if len(seen) != 3 {
			t.Fatalf("%d reports in 3.2 s", len(seen))
		}
		answers := 0
		for i, p := range seen {
			answers += p.Answers
			if p.Elapsed != time.Duration(i+1)*time.Second || int64(answers) != p.Succeeded || len(p.Recent) != 3 {
				t.Errorf("%+v", p)
				continue
			}
			near(t, "time to first token", p.Recent[0].Stats.P99, 160)
			near(t, "between messages", p.Recent[1].Stats.Avg, 10)
			near(t, "latency", p.Recent[2].Stats.Max, 200)
		}
	})
}
