//go:build linux

package worker_test

import (
	"os"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestResultBeforeStartFailsCase checks that the engine takes no rows of a case that the
// worker has not started: a process that inherited the descriptor may forge them.
func TestResultBeforeStartFailsCase(t *testing.T) {
	src := &list{}
	src.add(1, "none", long)
	src.add(2, "none", long)
	slots := testSlots(t, 1, 2, "TEST_WORKER=forges")
	pool := newPool(t, worker.PoolSpec{Slots: slots})
	_ = pool.Run(t.Context(), worker.Settings{}, src) // gives up, since no worker starts a case

	for _, o := range src.ends {
		if len(o.Rows) > 0 {
			t.Errorf("case %s has the rows %v", o.Task.Case.ID, o.Rows)
		}
	}
	log, err := os.ReadFile(slots[0].Spec.LogPath)
	if err != nil || !strings.Contains(string(log), "a result of case 1 before its start") {
		t.Errorf("the log: %s, %v", log, err)
	}
}

// TestRepeatedResultsEndTheCase checks that a case whose worker always sends the result of an earlier
// case fails instead of being given to new workers without end.
func TestRepeatedResultsEndTheCase(t *testing.T) {
	src := &list{}
	src.add(1, "none", long)
	src.add(2, "none", long)
	pool := newPool(t, worker.PoolSpec{Slots: testSlots(t, 1, 2, "TEST_WORKER=repeats")})
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}

	if len(src.ends) != 2 || src.ends[0].Failure != nil || src.ends[1].Cause != worker.CauseGarbage {
		t.Errorf("%+v", src.ends)
	}
}
