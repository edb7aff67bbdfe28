package collect

import (
	"fmt"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestRowsWithTooManyColumnsFail checks that generated column names do not all end up in one table.
func TestRowsWithTooManyColumnsFail(t *testing.T) {
	t.Parallel()
	j := &job{columns: map[string]bool{}}
	for i := range mostColumns {
		if f := j.newColumns(worker.Row{"latency": 1, fmt.Sprint("c", i%(mostColumns-1)): 1}, i); f != nil {
			t.Fatal(f.Message)
		}
	}
	if f := j.newColumns(worker.Row{"latency": 1, "c0": 1}, 0); f != nil {
		t.Error(f.Message)
	}
	if f := j.newColumns(worker.Row{"latency": 1, "more": 1}, 3); f == nil ||
		!strings.Contains(f.Message, "row 3 has 1 columns that no row before it has, and the table would have 501; 500 are "+
			"the most") {
		t.Errorf("%+v", f)
	}
}
