package ops

import (
	"testing"

	"aicplan/cudaops/worker"
)

// TestWordsHaveFormats checks that each type of a product has a format.
func TestWordsHaveFormats(t *testing.T) {
	t.Parallel()
	for _, op := range Ops() {
		for name, words := range op.Words {
			for _, w := range words {
				if _, ok := formats[w]; !ok && (name == "gemm_dtype" || name == "bmm_dtype") {
					t.Errorf("%s has no format %s", op.Name, w)
				}
			}
		}
	}
}

// TestOtherWordsAreUnsupported checks that an op rejects words that it does not declare.
func TestOtherWordsAreUnsupported(t *testing.T) {
	b := newBench(t, worker.Init{})
	for op, params := range map[string]map[string]any{
		OpGEMM:        {"gemm_dtype": "nvfp4", "m": 1, "n": 64, "k": 64},
		OpMLAPre:      {"bmm_dtype": "int8", "num_tokens": 1, "num_heads": 1},
		OpMemory:      {"kernel": "scale", "size_bytes": 64},
		OpElementwise: {"kernel": "rmsnorm", "dtype": "float32", "num_tokens": 1, "hidden_size": 64},
		OpLayer:       {"gemm_dtype": "fp4", "m": 1, "shapes": "64x64"},
	} {
		seq := b.add(op, params)
		if err := b.serve(); err != nil {
			t.Fatal(err)
		}
		if f := b.emit.errs[seq]; f.Class != worker.ClassUnsupportedConfig {
			t.Errorf("%s %v: %+v", op, params, f)
		}
	}
}
