package collect

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
)

// A field that rows are kept apart by must be one that the worker reports: a
// misspelt one would pass off rows of one environment as those of another.
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
