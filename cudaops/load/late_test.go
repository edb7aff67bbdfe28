package load

import (
	"context"
	"testing"

	"aicplan/cudaops/load/aiperf"
)

// TestLateCancel cancels a phase whose context calls back when a request of the next phase has begun.
func TestLateCancel(t *testing.T) {
	before, cancel := context.WithCancel(t.Context())
	l := &link{now: func() int64 { return 1 }}
	if err := l.begin(before, &aiperf.Record{}); err != nil {
		t.Fatal(err)
	}
	_ = l.end() // nil
	cancel()
	if err := l.begin(t.Context(), &aiperf.Record{}); err != nil {
		t.Fatal(err)
	}

	l.cancel(before)
	if err := l.end(); err != nil {
		t.Errorf("a request of the next phase ends with %v", err)
	}
}
