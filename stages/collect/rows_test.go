package collect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

// TestCellsThatNoTableHolds checks that a case fails if its values could not be stored unchanged or
// would harm a reader of the table.
func TestCellsThatNoTableHolds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value any
		want  string
	}{
		{json.Number(strings.Repeat("9", 5000)), "a number of 5000 digits"},
		{json.Number("18446744073709551615"), "too large for 64 bits"},
		{json.Number("1e400"), "which no float has"},
		{json.Number("-1e999"), "which no float has"},
		{"a\x00b", "control character U+0000"},
		{"\x1b[2J", "control character U+001B"},
		{"two\nlines", "control character U+000A"},
		{"back\u202ewards", "control character U+202E"},
		{"=1+1", "formula"},
		{"@SUM(A1)", "formula"},
		{strings.Repeat("x", maxText+1), "4097 bytes"},
		{map[string]any{}, "no single value"},
	} {
		row := worker.Row{"latency": json.Number("1"), "x": tt.value}
		f := schemaOf("", true).checkRow(row, 0, nil, nil)
		if f == nil || f.Class != worker.ClassCollectorBug || !strings.Contains(f.Message, tt.want) {
			t.Errorf("%.40v: %+v, want %q", tt.value, f, tt.want)
		}
	}
	for _, v := range []any{json.Number("9223372036854775807"), json.Number("-0.5e-300"), "nvjet_tst_128x64 (µ)", "-1", "", true, nil} {
		if f := schemaOf("", true).checkRow(worker.Row{"latency": json.Number("1"), "x": v}, 0, nil, nil); f != nil {
			t.Errorf("%v: %+v", v, f)
		}
	}
}

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
