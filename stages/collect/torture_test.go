package collect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicplan/cudaops/cpu"
	"aicplan/engine/stage"
	"aicplan/sink/base/testutil"
	"aicplan/sink/table"
)

// tortures lists every fault of the synthetic op with its share of 200 cases and its expected class; ""
// means measured.
var tortures = []struct {
	fault, class string
	n            int
}{
	{"error", "framework_bug", 24},
	{"unsupported", "unsupported_config", 15},
	{"transient", "transient", 10},
	{"oom", "resource_issue", 6},
	{"fatal", "framework_bug", 12},
	{"panic", "framework_bug", 12},
	{"hang", "timeout", 3},
	{"segfault", "framework_bug", 16},
	{"killed", "resource_issue", 6},
	{"exit0", "framework_bug", 12},
	{"exit10", "framework_bug", 12},
	{"fork", "framework_bug", 5},
	{"half", "framework_bug", 8},
	{"nan", "framework_bug", 10},
	{"columns", "collector_bug", 15},
	{"garbage", "collector_bug", 10},
	{"utf8", "collector_bug", 8},
	{"unknown_seq", "collector_bug", 8},
	{"huge", "collector_bug", 2},
	{"print", "", 2},
	{"late", "", 4},
}

// Of a thousand cases two hundred misbehave; make test runs a fifth of them. The ledger must contain
// exactly the cases that must fail, all others are measured, and the next run has nothing to do.
func TestTorture(t *testing.T) {
	scale := testutil.Rounds(5, 1)
	cases := 1000 / scale
	var lists []string
	faults, first := 0, 0
	want := map[string]int{}
	bad := 0
	for _, f := range tortures {
		var ns []string
		n := (f.n + scale - 1) / scale
		for range n {
			ns = append(ns, fmt.Sprint(first))
			first++
		}
		lists = append(lists, fmt.Sprintf("case_set %q {\n axis \"n\" { values = [%s] }\n axis \"fault\" { values = [%q] }\n}", f.fault, strings.Join(ns, ", "), f.fault))
		faults += n
		if f.class != "" {
			want[f.class] += n
			bad += n
		}
	}
	if faults < 200/scale {
		t.Fatalf("%d faults", faults)
	}
	var ns []string
	for ; first < cases; first++ {
		ns = append(ns, fmt.Sprint(first))
	}
	lists = append(lists, fmt.Sprintf("case_set \"healthy\" {\n axis \"n\" { values = [%s] }\n axis \"fault\" { values "+
		"= [\"none\"] }\n}", strings.Join(ns, ", ")))
	b := newBench(t, "op = \"synthetic\"\n"+strings.Join(lists, "\n"))
	b.runtime.Workers = 3
	// The race detector makes a process that exits wait for a second.
	b.runtime.Env = map[string]string{"GORACE": "atexit_sleep_ms=0"}
	b.runtime.Options["window"] = mustNumber(2)
	const config = `
breaker { after = 0 }
deadline {
  floor = "10s"
  first = "10s"
  factor = 1
}`
	out := b.must(config, stage.StatusPartial)
	if diff := cmp.Diff(want, histogram(t, out, "class")); diff != "" {
		t.Error(diff)
	}
	if out.Counts.Measured != cases-bad || out.Counts.Failed != bad {
		t.Errorf("%+v, want %d failed", out.Counts, bad)
	}
	n, err := table.Int64s(out.Data.Table, "n")
	if err != nil {
		t.Fatal(err)
	}
	latency, err := table.Float64s(out.Data.Table, "latency")
	if err != nil {
		t.Fatal(err)
	}
	kind := texts(t, out.Data, "table", "fault")
	for i, fault := range kind {
		if fault == "late" { // the fault invents the rows
			continue
		}
		if want := cpu.SyntheticLatency(map[string]any{"n": n.Values[i], "fault": fault}); latency.Values[i] != want {
			t.Errorf("case %d has latency %v, want %v", n.Values[i], latency.Values[i], want)
		}
	}
	b.reopen()
	if _, p := b.prepare(config); p.Cases.Collect != 0 || p.Cases.Hold != bad {
		t.Errorf("the next plan: %+v", p.Cases)
	}
}
