package policy

import (
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestClassifyReadsEndsOfLongTexts checks that rules look only at the ends of a long text, so that a worker that sends
// hundreds of KiB with every
// failure does not slow down the engine.
func TestClassifyReadsEndsOfLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for text, want := range map[string]string{
		"CUDA out of memory " + long:        worker.ClassResourceIssue,
		long + " CUDA out of memory":        worker.ClassResourceIssue,
		long + " CUDA out of memory" + long: worker.ClassFrameworkBug,
	} {
		if class, _ := Classify(nil, &worker.Failure{Traceback: text}); class != want {
			t.Errorf("%.20q and %d more bytes: %s, want %s", text, len(text), class, want)
		}
	}
}
