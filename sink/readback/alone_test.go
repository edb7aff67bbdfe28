package readback

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReadsOneVersionOnly checks that the package does not see other versions, from which some packages fill gaps.
func TestReadsOneVersionOnly(t *testing.T) {
	t.Parallel()
	dir, against := database(t, row("1", "0.5"), row("64", "0.9")), database(t, row("1", "0.5"), row("64", "0.9"))
	other := filepath.Join(against, "data", "h200_sxm", "trtllm", "0.9.0", "gemm_perf.txt")
	if err := os.MkdirAll(filepath.Dir(other), 0o755); err != nil {
		t.Fatal(err)
	}
	// The place beside m = 64 is 81.
	if err := os.WriteFile(other, []byte(header+row("81", "0.1")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), dir, options(python(t), against))
	if err != nil {
		t.Fatal(err)
	}
	if gemm := find(t, r, "gemm_perf"); gemm.Differ != 0 || gemm.Result != Pass {
		t.Errorf("%+v", gemm)
	}
}
