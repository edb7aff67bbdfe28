package host

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"aicplan/cudaops/trace"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/fileutil"
)

// Traces of all layouts get one rank each. Two traces of the same rank keep it.
func TestRanksOfTraces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		gpus  int
		files []string
		ranks []int // as stored in the traces, -1 if missing
		want  []int
	}{
		{"ranks of the traces", 2, []string{"a.json", "b.json"}, []int{1, 0}, []int{1, 0}},
		{"some without a rank", 3, []string{"a.json", "b.json", "c.json"}, []int{-1, 0, -1}, []int{1, 0, 2}},
		{"replicas by name", 2, []string{"rank0.json", "rank1.json"}, []int{0, 0}, []int{0, 1}},
		{"replicas", 4, []string{"dp0_pp0_tp0_rank0.1.json", "dp0_pp0_tp1_rank1.1.json", "dp1_pp0_tp0_rank0.1.json",
			"dp1_pp0_tp1_rank1.1.json"}, []int{0, 1, 0, 1}, []int{0, 1, 2, 3}},
		{"replicas by time", 2, []string{"dp0_pp0_tp0_rank0.1.json", "dp0_pp0_tp0_rank0.2.json"}, []int{0, 0}, []int{0, 1}},
		{"two stages of one rank", 1, []string{"1-TP-0-DECODE.json", "1-TP-0-EXTEND.json"}, []int{0, 0}, []int{0, 0}},
	} {
		var results []*trace.Analysis
		for i, file := range c.files {
			r := &trace.Analysis{File: "/traces/" + file}
			if n := c.ranks[i]; n >= 0 {
				r.Rank = &n
			}
			results = append(results, r)
		}
		if got := numbered(results, c.gpus); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Execution traces belong to the rank of the process that wrote them. The front end has none.
func TestExecutionTracesOfRanks(t *testing.T) {
	t.Parallel()
	dir, e := t.TempDir(), newSaid()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}

	var files []string
	for rank := range 2 {
		files = append(files, write(fmt.Sprintf("rank%d.json", rank), fmt.Sprintf(`{"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":%d,"tid":1,"ts":1,"dur":2},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":3,"dur":4,"args":{"device":0}}]}`, 71+rank)))
	}
	for _, pid := range []int{72, 71, 70} {
		write(fmt.Sprintf("x%d.et.json", 80-pid), fmt.Sprintf(`{"schema": "1.1.1", "pid": %d, "nodes": [{"pid": 1}]}`, pid))
	}

	h := &Host{out: e, current: &running{folder: &fileutil.TempFolder{Path: dir}}}
	tr := &tracing{ask: &ask{Case: worker.Case{Seq: 1}, gpus: 2, trace: new(traceBlock)},
		processes: map[string]int{}, ranks: map[int]*rankFigures{}}
	if err := h.read(t.Context(), files, tr); err != nil {
		t.Fatal(err)
	}
	if err := h.observers(nil, tr); err != nil {
		t.Fatal(err)
	}

	want := []string{"kineto_trace_0.json", "kineto_trace_1.json", "torch_et_1.json", "torch_et_0.json"}
	var names []string
	for _, a := range e.attached[1] {
		names = append(names, a.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
