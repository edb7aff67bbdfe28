package rows

import (
	"encoding/json"
	"strings"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/sink/catalog"
)

// TestCheckRejectsValuesThatNoTableHolds checks that a case fails if its values could not be stored unchanged or
// would harm a reader of the table.
func TestCheckRejectsValuesThatNoTableHolds(t *testing.T) {
	t.Parallel()
	check := Check{Schema: SchemaOf(nil, "", true)}
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
		{strings.Repeat("x", maxText+1), "65537 bytes"},
		{map[string]any{}, "no single value"},
	} {
		row := worker.Row{"latency": json.Number("1"), "x": tt.value}
		f := check.Row(row, 0)
		if f == nil || f.Class != worker.ClassCollectorBug || !strings.Contains(f.Message, tt.want) {
			t.Errorf("%.40v: %+v, want %q", tt.value, f, tt.want)
		}
	}
	for _, v := range []any{json.Number("9223372036854775807"), json.Number("-0.5e-300"), "nvjet_tst_128x64 (µ)", "-1", "",
		true, nil} {
		if f := check.Row(worker.Row{"latency": json.Number("1"), "x": v}, 0); f != nil {
			t.Errorf("%v: %+v", v, f)
		}
	}
}

// TestFirstMetricIsPositive checks which tables have rows whose first metric is zero.
func TestFirstMetricIsPositive(t *testing.T) {
	t.Parallel()
	for perf, want := range map[string]string{"": "the latency is zero", "gemm_perf": "the latency is zero",
		"serving_perf": "the request_throughput is zero", "computescale_perf": "", "glm5_topk_module_perf": ""} {
		check := Check{Schema: SchemaOf(nil, perf, true)}
		metric := catalog.SchemaOf(perf).Primary().Name
		for _, zero := range []json.Number{"0", "-0.0", "1e-999"} {
			f := check.Row(worker.Row{metric: zero}, 0)
			if (f == nil) != (want == "") || f != nil && !strings.Contains(f.Message, want) {
				t.Errorf("%s: %s: %+v, want %q", perf, zero, f, want)
			}
		}
		if f := check.Row(worker.Row{metric: json.Number("-1e-9")}, 0); f == nil || !strings.Contains(f.Message, "negative") {
			t.Errorf("%s: a negative %s: %+v", perf, metric, f)
		}
		if f := check.Row(worker.Row{metric: json.Number("5e-324")}, 0); f != nil {
			t.Errorf("%s: %+v", perf, f)
		}
	}
}

func TestReduceKeepsMetrics(t *testing.T) {
	t.Parallel()
	params := map[string]any{"m": json.Number("4")}
	check := Check{Sweep: []string{"batch"}, Param: func(name string) (any, bool) { v, ok := params[name]; return v, ok }}
	row := worker.Row{"latency": json.Number("1"), "p90": "NaN", "m": json.Number("4.0"), "batch": json.Number("2"),
		"version": "x", "note": nil, "algo": "k"}
	if f := check.Row(row, 0); f != nil || check.Contradicts(row) {
		t.Fatalf("%+v", f)
	}
	check.Reduce(row)
	if len(row) != 2 || row["latency"] == nil || row["algo"] != "k" {
		t.Errorf("%v", row)
	}
	if row["m"] = json.Number("5"); !check.Contradicts(row) || check.Row(row, 0) == nil {
		t.Error("a row of another case is accepted")
	}
}

// TestNumberColumnsOfTheTable checks text in the columns of a perf table.
func TestNumberColumnsOfTheTable(t *testing.T) {
	t.Parallel()
	perf, _ := catalog.Lookup("gemm_perf")
	check := Check{Table: perf}
	for text, want := range map[string]any{"16": json.Number("16"), "1.5": json.Number("1.5"), "": "", "NaN": nil} {
		row := worker.Row{"m": text, "gemm_dtype": "16", "other": "16"}
		if f := check.Row(row, 0); f != nil {
			t.Errorf("%q: %v", text, f)
		}
		check.Reduce(row)
		if row["m"] != want || row["gemm_dtype"] != "16" || row["other"] != "16" {
			t.Errorf("%q: %v", text, row)
		}
	}
	for _, text := range []string{"x", "007", "1e999", "0x10", " 1"} {
		if f := check.Row(worker.Row{"m": text}, 2); f == nil ||
			!strings.HasPrefix(f.Message, `row 2: m is "`) || !strings.HasSuffix(f.Message, "gemm_perf has numbers") {
			t.Errorf("%q: %v", text, f)
		}
	}
}

func TestSameComparesNumbersByValue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b json.Number
		want bool
	}{
		{"1", "1.0", true}, {"1e3", "1000", true}, {"1", "2", false},
		{"9007199254740992", "9007199254740993", false}, {"9007199254740993", "9007199254740993", true},
	} {
		if got := Same(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}
