package ops

import (
	"slices"
	"testing"
)

// TestWords compares the words that plans are checked for with those that the ops accept.
func TestWords(t *testing.T) {
	t.Parallel()
	words := Words()
	for _, op := range []string{OpGEMM, OpLayer} {
		for _, w := range words[op]["gemm_dtype"] {
			if _, _, _, err := matmulTypes(w); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	for _, op := range []string{OpMLAPre, OpMLAPost} {
		for _, w := range words[op]["bmm_dtype"] {
			if _, _, err := (MLABMM{Type: w, Tokens: 1, Heads: 1}).problem(0); err != nil {
				t.Errorf("%s: %v", op, err)
			}
		}
	}
	for _, w := range words[OpMemory]["kernel"] {
		if err := (Memory{Kernel: w, Size: memoryWord, Peer: -1}).check(); err != nil {
			t.Error(err)
		}
	}
	for _, k := range words[OpElementwise]["kernel"] {
		for _, d := range words[OpElementwise]["dtype"] {
			if _, err := (Elementwise{Kernel: k, Type: d, Tokens: 1, Hidden: groupSize}).check(90); err != nil {
				t.Error(err)
			}
		}
	}
	// No op accepts more words than it declares.
	for _, w := range []string{"fp4", "nvfp4", "int4", "float32", "float64", "bfloat16", "float16", "fp8", "fp8_block", "int8", ""} {
		_, _, _, err := matmulTypes(w)
		if listed := slices.Contains(words[OpGEMM]["gemm_dtype"], w); listed != (err == nil) {
			t.Errorf("gemm_dtype %q is listed: %v, and taken: %v", w, listed, err == nil)
		}
	}
	for op, of := range words {
		for name := range of {
			if !slices.Contains(Needs()[op], name) {
				t.Errorf("%s has words for %s, which it does not need", op, name)
			}
		}
	}
}
