package collect

import (
	"fmt"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// Thousands of generated column names would all end up in one table.
func TestTablesStayNarrow(t *testing.T) {
	t.Parallel()
	j := &job{}
	for i := range mostColumns {
		if f := j.newColumns(worker.Row{"latency": 1, fmt.Sprint("c", i%(mostColumns-1)): 1}, i); f != nil {
			t.Fatal(f.Message)
		}
	}
	if f := j.newColumns(worker.Row{"latency": 1, "c0": 1}, 0); f != nil {
		t.Error(f.Message)
	}
	if f := j.newColumns(worker.Row{"latency": 1, "more": 1}, 3); f == nil || !strings.Contains(f.Message, "row 3 has 1 columns that no row before it has, and the table would have 501; 500 are the most") {
		t.Errorf("%+v", f)
	}
}

// Rules look only at the ends of a long text, so that a worker that sends hundreds of KiB with every
// failure does not slow down the engine.
func TestRulesOfLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	for text, want := range map[string]string{
		"CUDA out of memory " + long:        worker.ClassResourceIssue,
		long + " CUDA out of memory":        worker.ClassResourceIssue,
		long + " CUDA out of memory" + long: worker.ClassFrameworkBug,
	} {
		if class, _ := classify(nil, &worker.Failure{Traceback: text}); class != want {
			t.Errorf("%.20q and %d more bytes: %s, want %s", text, len(text), class, want)
		}
	}
}
