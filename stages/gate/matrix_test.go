package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// The good table of the matrix: eight products along m, planned, measured once
// each, with all that any check looks at. Its latencies rise.
func flawless(n int) *stage.Dataset {
	ids, m, lat := make([]string, n), make([]int64, n), make([]float64, n)
	for i := range n {
		ids[i], m[i], lat[i] = fmt.Sprint("c", i), 1<<i, 0.1+0.01*float64(i)
	}

	constants := func(v any) arrow.Array { return table.Constant(v, n) }
	names := []string{"framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n", "k", "latency",
		"case_id", "rel_stdev", "power", "power_limit", "throttled", "used_cuda_graph"}
	rec := table.NewRecord(names, []arrow.Array{
		constants("VLLM"), constants("0.24.0"), constants("NVIDIA H200"), constants("gemm"), constants("nvjet"),
		constants("bfloat16"), table.Ints(m, nil), constants(int64(4096)), constants(int64(4096)), table.Floats(lat, nil),
		table.Texts(ids, nil), constants(0.001), constants(400.0), constants(700.0), constants(false), constants(true)})

	// Each row is a layer of one part: the row of the reference with its m.
	parts := make([]string, n)
	for i := range n {
		parts[i] = fmt.Sprintf(`[{"m": %d}]`, 1<<i)
	}

	rec = table.WithColumn(rec, "parts", table.Texts(parts, nil))
	rec = table.WithColumn(rec, "kernels", table.Texts(slices.Repeat([]string{`{"nvjet":1}`}, n), nil))
	for name, v := range map[string]float64{
		"send_lag_p99": 0.1, "client_sched_p99": 0.1, "client_cpu_share": 0.1, "unique_prompts": 64, "requests": 64,
		"short_outputs": 0, "token_mismatch": 0, "error_rate": 0, "comm_overhead": 20,
	} {
		rec = table.WithColumn(rec, name, constants(v))
	}

	return &stage.Dataset{
		Table:   rec,
		Planned: pick(rec, "case_id", "gemm_dtype", "m", "n", "k"),
		Ledger: table.NewRecord([]string{"case_id", "status", "class", "message"}, []arrow.Array{
			table.Texts(nil, nil), table.Texts(nil, nil), table.Texts(nil, nil), table.Texts(nil, nil)}),
		Info: stage.Info{Op: "gemm", Perf: "gemm_perf", Params: []string{"gemm_dtype", "m", "n", "k"},
			Framework: "VLLM", Version: "0.24.0", Device: "NVIDIA H200"},
	}
}

func pick(rec arrow.Record, names ...string) arrow.Record {
	out, err := table.Select(rec, names...)
	if err != nil {
		panic(err)
	}
	return out
}

// spoil makes the table bad in one way; column is the one that it is bad in,
// row 3 the row.
func spoil(t *testing.T, kind, name string) *stage.Dataset {
	t.Helper()
	const n, at = 8, 3
	ds := flawless(n)
	replace := func(arr arrow.Array) { ds.Table = table.WithColumn(ds.Table, name, arr) }
	value := func(v float64) {
		col, err := table.Float64s(ds.Table, name)
		if err != nil {
			t.Fatalf("%s of %s: %v", kind, name, err)
		}
		vals := append([]float64{}, col.Values...)
		vals[at] = v
		replace(table.Floats(vals, nil))
	}
	switch kind {
	case "good":
	case "empty":
		ds.Table = table.Take(ds.Table, []int{})
	case "nan":
		value(math.NaN())
	case "inf":
		value(math.Inf(1))
	case "negative":
		value(-5)
	case "zero":
		value(0)
	case "minus zero":
		value(math.Copysign(0, -1))
	case "huge":
		value(1e308)
	case "all null":
		arr, err := table.Array(ds.Table, name)
		if err != nil {
			t.Fatal(err)
		}
		replace(table.Nulls(arr.DataType(), n))
	case "one row":
		ds.Table = table.Take(ds.Table, []int{0})
		ds.Planned = table.Take(ds.Planned, []int{0})
	case "extra":
		ds.Table = table.WithColumn(ds.Table, "Latency", table.Constant(math.NaN(), n))
	case "case":
		ds.Table = table.WithColumn(table.Drop(ds.Table, name), strings.ToUpper(name),
			ds.Table.Column(table.Index(ds.Table, name)))
	case "null":
		one := table.Take(pick(ds.Table, name), []int{0, 1, 2, -1, 4, 5, 6, 7})
		replace(one.Column(0))
	case "missing":
		ds.Table = table.Drop(ds.Table, name)
	case "type":
		replace(table.Constant("a word", n))
	case "duplicate":
		ds.Table = table.Take(ds.Table, []int{0, 1, 2, 3, 3, 4, 5, 6, 7})
	case "fewer keys":
		// The table lost the column of its two dtypes.
		ds.Table = table.Drop(ds.Table, "gemm_dtype")
	case "foreign version":
		words := []string{"0.24.0", "0.24.0", "0.24.0", "0.19.1", "0.24.0", "0.24.0", "0.24.0", "0.24.0"}
		ds.Table = table.WithColumn(ds.Table, "version", table.Texts(words, nil))
	default:
		t.Fatalf("there is no bad table %q", kind)
	}

	return ds
}

var matrixKinds = []string{"good", "empty", "nan", "inf", "null", "negative", "missing", "type", "duplicate",
	"fewer keys", "foreign version",
	"zero", "minus zero", "huge", "all null", "one row", "extra", "case"}

// The checks of the matrix with the column that each reads and its verdict for
// every kind of bad table, in the order of matrixKinds: P holds, F does not
// hold, and u fails because not everything could be judged, and would not if
// the check accepted that (min_judged = 0). "-" is for what the column's type cannot be.
//
// A P of a bad table means that another check finds the fault: the same column of the matrix has an F.
var matrix = []struct{ check, column, verdicts string }{
	// good, empty, nan, inf, null, negative, missing, type, duplicate, fewer keys, foreign version;
	// zero, minus zero, huge, all null, one row, extra, case
	{`check "coverage" {}`, "latency", "P F F F F F F F P P P  F F P F P P F"},
	{`check "duplicates" {}`, "m", "P u - - u P u F F u P  - - - u P P u"},
	{`check "duplicates" {}`, "latency", "P u P P P P P P F u P  P P P P P P P"},
	{`check "schema" {}`, "m", "P u F F F F F F P F P  F F F F P P F"},
	{`check "schema" {}`, "latency", "P u P P F P F F P F P  P P P F P P F"},
	{`check "schema" {}`, "kernel_source", "P u - - F - F P P F P  - - - F P P F"},
	{`check "provenance" { system = system.h200_sxm }`, "version", "P u - - F - F F P P F  - - - F P P F"},
	{`check "limits" { system = system.h200_sxm }`, "latency", "P u F F F F u u P P P  F F F F P P u"},
	{`check "limits" { system = system.h200_sxm }`, "power", "P u F F P F P P P P P  F F F P P P P"},
	{`check "limits" { system = system.h200_sxm }`, "m", "P u P P P P P P P P P  P P P P P P P"},
	{`check "trend" {}`, "latency", "P u u u u u u u P P P  u u F u u P u"},
	{`check "trend" {}`, "m", "P u u u P u u u P P P  u u u u u P u"},
	{`check "copies" {}`, "latency", "P u u u u u u u P P P  u u P u P P u"},
	{`check "rows" { condition = latency > 0 }`, "latency", "P u u u u F u F P P P  F F P u P P u"},
	{`check "rows" { condition = !throttled }`, "throttled", "P u - - u - u F P P P  - - - u P P u"},
	{`check "rows" { condition = error_rate == 0 }`, "error_rate", "P u u u u F u F P P P  P P F u P P u"},
	{`check "compare" { @ reference = import.old @ median = 0.01 @ }`, "latency",
		"P F u u u u F F u F P  u u u u P P F"},
	{`check "prediction" { @ predicted = import.old @ columns = ["latency"] @ }`, "latency",
		"P F u u u u u u P F P  u u F u P P u"},
	{`check "composition" { @ parts = [import.old] @ min = 0.9 @ max = 1.1 @ }`, "latency",
		"P u u u u u u u P P P  u u F u P P u"},
	{`check "composition" { @ parts = [import.old] @ min = 0.9 @ max = 1.1 @ }`, "parts",
		"P u - - u - u u P P P  - - - u P P u"},
	{`check "served" { @ rows = [import.old] @ }`, "kernels",
		"P u - - u - u F P P P  - - - u P P u"},
	{`assert "a" { condition = max.latency < 1 }`, "latency", "P u u F u P u u P P P  P P F u P P u"},
	{`assert "a" { condition = nulls.latency == 0 }`, "latency", "P u P P F P u P P P P  P P P F P P u"},
	{`assert "a" { condition = distinct.m == 8 }`, "m", "P u - - F P u F P P P  - - - F F P u"},
	{`assert "a" { condition = count == 8 }`, "latency", "P F P P P P P P F P P  P P P P F P P"},
}

// TestMatrix states the verdict of every check on every kind of bad table.
func TestMatrix(t *testing.T) {
	t.Parallel()
	ref := flawless(8)
	ref.Planned, ref.Ledger = nil, nil

	caught := map[string]bool{}
	for _, m := range matrix {
		want := strings.Fields(m.verdicts)
		if len(want) != len(matrixKinds) {
			t.Fatalf("%s has %d verdicts for %d tables", m.check, len(want), len(matrixKinds))
		}

		src := strings.ReplaceAll(m.check, "@", "\n")
		for i, kind := range matrixKinds {
			if want[i] == "-" {
				continue
			}

			var refs []*stage.Dataset
			if strings.Contains(src, "import.old") {
				refs = append(refs, ref)
			}

			ds := spoil(t, kind, m.column)
			got := only(t, run(t, ds, src, refs...))
			letter := map[string]string{ResultPass: "P", ResultFail: "F"}[got.Result]
			if got.Result == ResultFail && got.Judged < max(got.Total, 1) && got.Extent != nil && !definite(t, ds, src, refs) {
				letter = "u"
			}

			if letter != want[i] {
				t.Errorf("%s, %s %s: %s (judged %d of %d): %s; want %s", src, kind, m.column, letter, got.Judged, got.Total,
					got.Message, want[i])
			}

			if got.Result != ResultPass {
				caught[kind] = true
			}

			if got.Judged < 0 || got.Judged > got.Total {
				t.Errorf("%s, %s %s: %d of %d judged", src, kind, m.column, got.Judged, got.Total)
			}
		}
	}

	for _, kind := range matrixKinds[1:] {
		// A further column, and a table of one row, are nothing bad as such.
		if !caught[kind] && kind != "extra" && kind != "one row" {
			t.Errorf("no check objects to a table that is bad by %q", kind)
		}
	}
}

// definite reports whether a check also fails if nothing needs to be judged.
func definite(t *testing.T, ds *stage.Dataset, src string, refs []*stage.Dataset) bool {
	from, to := strings.Index(src, "{"), strings.LastIndex(src, "}")
	src = src[:from+1] + "\n" + src[from+1:to] + "\nmin_judged = 0\n}"
	return only(t, run(t, ds, src, refs...)).Result == ResultFail
}

// TestMatrixIsWhole checks that the matrix has a row for every check.
func TestMatrixIsWhole(t *testing.T) {
	for _, s := range specs() {
		found := false
		for _, m := range matrix {
			found = found || strings.HasPrefix(m.check, `check "`+s.name+`"`)
		}
		if !found {
			t.Errorf("the matrix has no check %q", s.name)
		}
	}
}

// TestUnjudgedSettings checks that min_judged and severity decide about rows that cannot be judged.
func TestUnjudgedSettings(t *testing.T) {
	ds := spoil(t, "null", "rel_stdev")
	for settings, want := range map[string]string{
		"":                    "fail",
		"min_judged = 0.875":  "pass",
		"min_judged = 0.9":    "fail",
		"min_judged = 0":      "pass",
		"severity = \"warn\"": "warn",
	} {
		got := only(t, run(t, ds, "check \"rows\" {\ncondition = rel_stdev <= 0.01\n"+settings+"\n}"))
		if got.Result != want || got.Judged != 7 || got.Total != 8 || got.Unjudged["rel_stdev is null"] != 1 ||
			!strings.Contains(got.Message, "1 of 8 could not be judged: rel_stdev is null") {
			t.Errorf("%s: %+v %+v, want %s", settings, got, got.Extent, want)
		}
	}
}
