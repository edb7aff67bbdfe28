//go:build linux

package worker_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"aicplan/cudaops/cpu"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// tortures lists how each fault must end, and how often it is used.
var tortures = []struct {
	fault string
	cause worker.Cause
	text  string // in exception, message or traceback
	n     int
}{
	{"error", worker.CauseReported, "raised an error", 20},
	{"panic", worker.CauseReported, "synthetic panic", 15},
	{"oom", worker.CauseReported, "out of memory", 10},
	{"fatal", worker.CauseReported, "illegal memory access", 15},
	{"hang", worker.CauseHung, "deadline", 12},
	{"segfault", worker.CauseDied, "SIGSEGV", 20},
	{"killed", worker.CauseDied, "SIGKILL", 10},
	{"exit0", worker.CauseDied, "status 0", 15},
	{"exit10", worker.CauseDied, "exit status 10", 10},
	{"fork", worker.CauseDied, "processes that it had started were killed", 6},
	{"half", worker.CauseDied, "exit status 1", 10},
	{"garbage", worker.CauseGarbage, "Traceback", 10},
	{"utf8", worker.CauseGarbage, "not UTF-8", 10},
	{"unknown_seq", worker.CauseGarbage, "was not given", 10},
	{"huge", worker.CauseGarbage, "more than 16777216 bytes", 4},
	// These reach the engine as rows; what is in them is the collector's affair.
	{"nan", worker.CauseNone, "NaN", 8},
	{"columns", worker.CauseNone, "", 8},
	{"print", worker.CauseNone, "", 3},
	{"late", worker.CauseNone, "", 4},
}

func TestTorture(t *testing.T) {
	windows := []int{1, 4}
	if !testutil.All() {
		windows = windows[1:]
	}
	for _, window := range windows {
		t.Run(fmt.Sprintf("window %d", window), func(t *testing.T) { torture(t, window) })
	}
}

func torture(t *testing.T, window int) {
	src := &list{}
	faults := 0
	for _, f := range tortures {
		for range f.n {
			deadline := long
			if f.fault == "hang" {
				deadline = short
			}
			src.add(faults, f.fault, deadline)
			faults++
		}
	}
	if faults != 200 {
		t.Fatalf("%d faults", faults)
	}
	for n := faults; n < 1000; n++ {
		src.add(n, "none", long)
	}
	rand.New(rand.NewPCG(1, uint64(window))).Shuffle(len(src.tasks), func(i, j int) {
		src.tasks[i], src.tasks[j] = src.tasks[j], src.tasks[i]
	})
	slots := testSlots(t, 3, window)
	pool := newPool(t, worker.PoolSpec{Slots: slots})
	if err := pool.Run(t.Context(), worker.Settings{}, src); err != nil {
		t.Fatal(err)
	}
	if len(src.ends) != 1000 {
		t.Errorf("%d ends of 1000 cases", len(src.ends))
	}
	seen := map[string]bool{}
	for _, o := range src.ends {
		id, fault := o.Task.Case.ID, o.Task.Data.(string)
		if seen[id] {
			t.Errorf("case %s ended twice", id)
		}
		seen[id] = true
		checkTorture(t, id, fault, o)
	}
	for _, s := range slots {
		info, err := os.Stat(s.Spec.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		// Start and end lines of some 60 processes come on top of the limit.
		if info.Size() > s.Spec.LogLimit+64<<10 {
			t.Errorf("the log of %s has %d bytes, its limit is %d", s.Name, info.Size(), s.Spec.LogLimit)
		}
	}
}

func checkTorture(t *testing.T, id, fault string, o worker.Outcome) {
	t.Helper()
	if fault == "none" {
		var n json.Number
		params := map[string]any{"n": id, "fault": "none"}
		if o.Failure != nil || len(o.Rows) != 1 {
			t.Errorf("healthy case %s: %+v", id, o.Failure)
			return
		}
		n, _ = o.Rows[0]["latency"].(json.Number)
		if want := fmt.Sprint(cpu.SyntheticLatency(params)); n.String() != want {
			t.Errorf("case %s has latency %v, want %s", id, n, want)
		}
		return
	}
	for _, want := range tortures {
		if want.fault != fault {
			continue
		}
		if o.Cause != want.cause || (o.Failure == nil) != (want.cause == worker.CauseNone) {
			t.Errorf("%s ended with cause %d and %+v, want cause %d", fault, o.Cause, o.Failure, want.cause)
			return
		}
		text := fmt.Sprint(o.Rows)
		if o.Failure != nil {
			text = o.Failure.Exception + "\n" + o.Failure.Message + "\n" + o.Failure.Traceback
		}
		if !strings.Contains(text, want.text) {
			t.Errorf("%s: %q is not in %.600q", fault, want.text, text)
		}
	}
}
