package collect

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
)

// TestEstimateIgnoresOtherRuntimeKinds checks that cases of another kind of runtime are not used for an estimate.
func TestEstimateIgnoresOtherRuntimeKinds(t *testing.T) {
	b := newBench(t, "op = \"memory\"\naxis \"kernel\" { values = [\"copy\", \"triad\"] }\naxis \"size_bytes\" { values "+
		"= [4096] }\n")
	b.must("", stage.StatusOK)
	_, p := b.prepare("measure {\n max_passes = 5\n}")
	if p.Cases.Seconds == 0 || !strings.Contains(p.Cases.Basis, "under other conditions") {
		t.Fatalf("no estimate from the same runtime under other settings: %+v", p.Cases)
	}
	gpu := *b.runtime
	gpu.Kind, gpu.Framework, gpu.Options = "cuda", "CUDA", nil
	b.runtime = &gpu
	if _, p := b.prepare(""); p.Cases.Seconds != 0 {
		t.Errorf("a GPU's time from a processor's: %+v", p.Cases)
	}
}
