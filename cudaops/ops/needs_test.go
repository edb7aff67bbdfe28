package ops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestNeeds holds what plans are checked against by what the ops say themselves.
func TestNeeds(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(Needs())), slices.Sorted(slices.Values(Names)); !slices.Equal(got, want) {
		t.Fatalf("the ops are %v, Needs has %v", want, got)
	}
	sample := map[string]any{
		"gemm_dtype": "bfloat16", "bmm_dtype": "bfloat16", "dtype": "bfloat16", "m": 16, "n": 128, "k": 64,
		"num_tokens": 16, "num_heads": 128, "hidden_size": 4096, "size_bytes": 1 << 20, "shapes": "128x64",
	}
	b := newBench(t, worker.Init{})
	without := map[int64]string{} // by case; "" where nothing is left out
	for op, needs := range Needs() {
		for _, out := range append(slices.Clone(needs), "") {
			params := map[string]any{}
			for _, n := range needs {
				if n == out {
					continue
				}
				params[n] = sample[n]
				if n == "kernel" {
					params[n] = map[string]string{OpMemory: "copy", OpElementwise: "rmsnorm"}[op]
				}
			}
			without[b.add(op, params)] = out
		}
	}
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	for seq, name := range without {
		got := b.emit.errs[seq].Message
		if name == "" && strings.Contains(got, "is missing") || name != "" && !strings.Contains(got, fmt.Sprintf("parameter %q is missing", name)) {
			t.Errorf("without %q: %s", name, got)
		}
	}
}
