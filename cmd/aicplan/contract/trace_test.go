package contract

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// figures are the fields of a trace that the contract holds, times in
// nanoseconds.
var figures = []string{
	"device", "rank", "world_size", "events", "kernels", "span_ns", "busy_union_ns", "idle_ns", "comm_sum_ns",
	"comm_union_ns",
	"compute_union_ns", "overlap_ns", "exposed_comm_ns", "steps", "collectives", "top_kernels", "per_step",
	"phases", "wait_ns",
}

// TestTraces compares the figures of the shipped traces, alone and of the two
// ranks of one run together: then there is what collectives waited for.
func TestTraces(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "cudaops", "trace", "testdata")
	files, err := filepath.Glob(filepath.Join(dir, "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	got := map[string]any{}
	for _, file := range files {
		got[strings.TrimSuffix(filepath.Base(file), ".json.gz")] = figuresOf(t, file)
	}
	got["both ranks"] = figuresOf(t, filepath.Join(dir, "vllm_tp2__rank0.json.gz"), filepath.Join(dir,
		"vllm_tp2__rank1.json.gz"))
	golden(t, *update, "traces", got)
}

func figuresOf(t *testing.T, files ...string) any {
	t.Helper()
	r := newFolder(t).run(append([]string{"trace", "--json", "--top", "2", "--steps", "2"}, files...)...)
	var found []map[string]any
	if err := json.Unmarshal(r.stdout, &found); err != nil {
		t.Fatalf("%v: %v\n%s", files, err, short(r.stderr))
	}
	var devices []any
	for _, f := range found {
		d := map[string]any{}
		for _, name := range figures {
			if v, ok := f[name]; ok && v != nil {
				d[name] = v
			}
		}
		_, d["failed"] = f["error"]
		devices = append(devices, d)
	}
	return map[string]any{"exit_code": r.code, "devices": devices}
}
