package gate

import (
	"fmt"
	"math"
	"slices"

	"aicplan/sink/base/stats"
	"aicplan/stages/gate/results"
)

// queue compares the errors of ttft with and without the queue time that the server reports. It returns
// nil if the server reports none.
func (c *prediction) queue(s *subject, pairs map[string][]compared) *results.QueueCompare {
	waited := cells(s.rec, "server_queue", true)
	var shares, errs []float64
	for _, p := range pairs["ttft"] {
		w := waited(p.row)
		if w == nil || *w >= p.measured {
			continue // the two means cover different requests: some failed
		}
		shares = append(shares, *w/p.measured)
		errs = append(errs, math.Abs(p.predicted/(p.measured-*w)-1))
	}

	if len(errs) == 0 {
		return nil
	}

	slices.Sort(shares)
	slices.Sort(errs)
	return &results.QueueCompare{
		Compared: len(errs), Share: stats.Interpolated(shares, 0.5), P50: stats.Interpolated(errs, 0.5),
		P95: stats.Interpolated(errs, 0.95),
	}
}

func queueText(q *results.QueueCompare) string {
	if q == nil {
		return ""
	}
	return fmt.Sprintf(
		"; by the server's metrics %s of ttft is its queue (median of %d), and ttft without it: p50 %s, p95 %s (not judged)",
		percent(q.Share),
		q.Compared,
		percent(q.P50),
		percent(q.P95),
	)
}
