package ops

import (
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/sink/base/testutil"
)

// TestNeeds compares the columns that plans are checked for with those that the ops read.
func TestNeeds(t *testing.T) {
	t.Parallel()
	sample := map[string]any{
		"gemm_dtype": "bfloat16", "bmm_dtype": "bfloat16", "dtype": "bfloat16", "m": 16, "n": 128, "k": 64,
		"num_tokens": 16, "num_heads": 128, "hidden_size": 4096, "size_bytes": 1 << 20, "shapes": "128x64",
	}
	kernels := map[string]string{OpMemory: "copy", OpElementwise: "rmsnorm"}
	b := newBench(t, worker.Init{})
	trials := map[int64]testutil.Trial{}
	for _, c := range testutil.Trials(t, Names, Needs(), sample) {
		if _, ok := c.Params["kernel"]; ok {
			c.Params["kernel"] = kernels[c.Op]
		}
		trials[b.add(c.Op, c.Params)] = c
	}
	if err := b.serve(); err != nil {
		t.Fatal(err)
	}
	for seq, c := range trials {
		c.Check(t, b.emit.errs[seq].Message)
	}
}
