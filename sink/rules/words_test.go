package rules

import (
	"testing"

	"aicplan/sink/catalog"
	"aicplan/systems"
)

// TestEveryFormatHasASize: a format that tables may hold has a size and a peak, or
// its rows are judged by nothing.
func TestEveryFormatHasASize(t *testing.T) {
	t.Parallel()
	spec, err := systems.Load("b200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"moe_dtype", "gemm_dtype", "attn_dtype", "bmm_dtype", "nccl_dtype"} {
		for _, word := range catalog.Words(column) {
			if act, weight := bytesOf(word); !(act > 0 && weight > 0) {
				t.Errorf("%s %s has no size", column, word)
			}
			if _, ok := spec.Peak(word); !ok {
				t.Errorf("%s %s has no peak on %s", column, word, spec.Name)
			}
		}
	}
}
