package collect

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
)

// An environment field that workers do not report is an error. A misspelled field would otherwise mix
// rows of different environments.
func TestEnvironmentFieldsAreReported(t *testing.T) {
	b := newBench(t, plain)
	_, err := b.run(`environment = ["framework", "hostnam"]`)
	if err == nil {
		t.Fatal("a field that no worker reports was taken")
	}
	for _, part := range []string{`"hostnam"`, "runtime.cpu", "hostname", "version"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	b.must(`environment = ["framework", "hostname"]`, stage.StatusOK)
}

// Cases that another kind of runtime measured are not used for an estimate.
func TestEstimateKnowsRuntimesApart(t *testing.T) {
	b := newBench(t, "op = \"memory\"\naxis \"kernel\" { values = [\"copy\", \"triad\"] }\naxis \"size_bytes\" { values = [4096] }\n")
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
