package comm

import (
	"slices"
	"testing"
	"time"

	"aicplan/cudaops/measure"
)

// The time of a small message's replay depends on the offset between the ranks at its start. Such a graph
// is replayed often, each time after an untimed replay. Long graphs are replayed a few times, and no longer
// than a pass may take.
func TestReplaysOfAVisit(t *testing.T) {
	t.Parallel()
	s := measure.Defaults()
	for _, c := range []struct {
		perExec      time.Duration
		n            int
		limit        float64
		times, ahead int
	}{
		{8 * time.Microsecond, 10, 0.1, 18, 1},
		{3 * time.Microsecond, 20, 0.1, 24, 1},
		{50 * time.Microsecond, 3, 0.1, graphReplays, 0},
		{5 * time.Millisecond, 1, 0.25, graphReplays, 0},
		{5 * time.Millisecond, 1, 0.1, 4, 0},
		{5 * time.Millisecond, 1, 0.01, 1, 0},
	} {
		f := &series{settings: s, perExec: c.perExec.Seconds()}
		f.settings.MaxPassSeconds, f.task.N = c.limit, c.n
		if times, ahead := f.plan(); times != c.times || ahead != c.ahead {
			t.Errorf("%v in blocks of %d within %v s: %d replays behind %d, want %d behind %d", c.perExec, c.n, c.limit, times,
				ahead, c.times, c.ahead)
		}
	}
	f := &series{settings: s, perExec: 8e-6}
	f.settings.Protocol, f.task.N = measure.ProtocolReference, 5
	if times, ahead := f.plan(); times != 1 || ahead != 0 {
		t.Errorf("the reference protocol replays %d times behind %d", times, ahead)
	}
}

// TestLatencyOfPasses checks that a graph's latency is the mean of its passes with disturbed ones capped,
// and that the latency of host launches is that of the fastest passes.
func TestLatencyOfPasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		medians      []float64
		graph, eager float64
	}{
		{[]float64{8}, 8, 8},
		{[]float64{8.4, 8, 8.2, 8.2}, 8.2, 8.1},
		{[]float64{8, 16, 8, 8}, (3*8 + 8*disturbedBy) / 4, 8},
		{[]float64{8, 8.8}, (8 + 8.8) / 2, (8 + 8.8) / 2},
		{[]float64{8, 12}, (8 + 10*disturbedBy) / 2, 10},
	} {
		s := series{medians: slices.Clone(c.medians)}
		if got := s.latency(true); !near(got, c.graph) {
			t.Errorf("graphs with passes of %v take %v, want %v", c.medians, got, c.graph)
		}
		if got := s.latency(false); !near(got, c.eager) {
			t.Errorf("launches with passes of %v take %v, want %v", c.medians, got, c.eager)
		}
		if !slices.Equal(s.medians, c.medians) {
			t.Errorf("the passes %v became %v", c.medians, s.medians)
		}
	}
}
