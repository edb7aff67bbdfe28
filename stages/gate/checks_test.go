package gate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/systems"
)

// measured is a gemm_perf dataset with m = 1, 2, 4, ... and the latencies.
func measured(latency ...float64) *stage.Dataset {
	n := len(latency)
	ms := make([]int64, n)
	for i := range ms {
		ms[i] = 1 << i
	}
	return &stage.Dataset{
		Table: table.NewRecord([]string{"framework", "version", "device", "op_name", "kernel_source", "gemm_dtype",
			"m", "n", "k", "latency"}, []arrow.Array{
			table.Constant("VLLM", n), table.Constant("0.24.0", n), table.Constant("NVIDIA H200", n),
			table.Constant("gemm", n), table.Constant("k", n),
			table.Constant("bfloat16", n), table.Ints(ms, nil), table.Constant(int64(4096), n),
			table.Constant(int64(4096), n), table.Floats(latency, nil)}),
		Info: stage.Info{Op: "gemm", Perf: "gemm_perf", Params: []string{"gemm_dtype", "m", "n", "k"},
			Framework: "vLLM", Version: "0.24.0", Device: "NVIDIA H200"},
	}
}

func with(ds *stage.Dataset, name string, arr arrow.Array) *stage.Dataset {
	out := *ds
	out.Table = table.WithColumn(ds.Table, name, arr)
	return &out
}

func expect(t *testing.T, got stage.CheckResult, result, message string, rows ...string) {
	t.Helper()

	if got.Result != result || !strings.Contains(got.Message, message) {
		t.Errorf("got %s: %s\nwant %s: %s", got.Result, got.Message, result, message)
	}

	if len(rows) > 0 && len(got.Rows) != len(rows) {
		t.Errorf("rows %q, want %d", got.Rows, len(rows))
		return
	}

	for i, r := range rows {
		if !strings.Contains(got.Rows[i], r) {
			t.Errorf("row %d is %q, want %q", i, got.Rows[i], r)
		}
	}
}

func TestSchema(t *testing.T) {
	ds := measured(1, 2)
	expect(t, only(t, run(t, ds, `check "schema" {}`)), "pass", "fit gemm_perf")
	bad := with(ds, "m", table.Floats([]float64{1, 2.5}, nil))
	expect(t, only(t, run(t, bad, `check "schema" {}`)), "fail", "m is float64, and readers need int64")
	bad = with(ds, "gemm_dtype", table.Texts([]string{"float16", "float8"}, nil))
	expect(t, only(t, run(t, bad, `check "schema" {}`)), "fail", "", `"float16" is called "bfloat16" now`,
		`"float8" is unknown`)
	lost := *ds
	lost.Table = table.Drop(ds.Table, "k")
	expect(t, only(t, run(t, &lost, `check "schema" {}`)), "fail", "the column k is missing")
	bad = with(ds, "k", table.Ints([]int64{1, 0}, []bool{true, false}))
	expect(t, only(t, run(t, bad, `check "schema" {}`)), "fail", "k has no value in 1 rows")
}

func TestProvenance(t *testing.T) {
	ds := measured(1, 2)
	expect(t, only(t, run(t, ds, `check "provenance" { system = system.h200_sxm }`)), "pass",
		"every row comes from vLLM 0.24.0 NVIDIA H200")
	mixed := with(ds, "version", table.Texts([]string{"0.24.0", "0.19.1"}, nil))
	expect(t, only(t, run(t, mixed, `check "provenance" {}`)), "fail", "",
		`1 rows have the version "0.19.1", not "0.24.0"`)
	other := with(ds, "device", table.Constant("NVIDIA H100 80GB HBM3", 2))
	other.Info.Device = ""
	expect(t, only(t, run(t, other, `check "provenance" { system = system.h200_sxm }`)), "fail", "",
		"not a device of h200_sxm")
}

func TestPower(t *testing.T) {
	ds := measured(1, 2, 3)
	expect(t, only(t, run(t, ds, `check "power" {}`)), "fail", "none of 3 could be judged: the data has no column")
	expect(t, only(t, run(t, ds, `check "power" { min_judged = 0 }`)), "skip", "no column")
	expect(t, only(t, run(t, ds, `check "power" { required = true }`)), "fail", "power = true")
	hot := with(with(ds, "power", table.Floats([]float64{699, 719, 740}, nil)), "power_limit", table.Constant(700.0, 3))
	expect(t, only(t, run(t, hot, `check "power" {}`)), "fail", "1 of 3 values", "power=740")
	expect(t, only(t, run(t, with(hot, "power", table.Floats([]float64{0, 1, 2}, nil)), `check "power" {}`)),
		"fail", "1 of 3 values", "power=0")
	bare := with(ds, "power", table.Constant(900.0, 3))
	expect(t, only(t, run(t, bare, `check "power" {}`)), "fail", "none of 3 could be judged: no limit is known")
	expect(t, only(t, run(t, bare, `check "power" { system = system.h200_sxm }`)), "fail", "3 of 3")
}

func TestSpeedOfLight(t *testing.T) {
	// 4096 x 4096 bfloat16 weights take 33.5 MB: at 4.8 TB/s no less than 7 us.
	ds := measured(0.008, 0.0085, 0.002)
	got := only(t, run(t, ds, `check "speed_of_light" { system = system.h200_sxm }`))
	expect(t, got, "fail", "1 of 3 rows are faster than h200_sxm allows", "m=4 n=4096 k=4096")
	other := *ds
	other.Info.Perf = "nccl_perf"
	expect(t, only(t, run(t, &other, `check "speed_of_light" { system = system.h200_sxm }`)), "fail", "no formula")
	expect(t, only(t, run(t, &other, "check \"speed_of_light\" {\nsystem = system.h200_sxm\nmin_judged = 0\n}")),
		"skip", "no formula")
}

func TestTrends(t *testing.T) {
	ds := measured(0.05, 0.06, 0.04, 0.07, 0.5, 0.08)
	expect(t, only(t, run(t, ds, `check "monotonic" {}`)), "fail", "2 of 5 steps", "m=32 ", "m=4 ")
	expect(t, only(t, run(t, ds, `check "spikes" {}`)), "fail", "1 of 4 steps", "m=16 ")
	expect(t, only(t, run(t, ds, `check "monotonic" { ratio = 0.1 }`)), "pass", "")
	expect(t, only(t, run(t, ds, `check "monotonic" { max = 2 }`)), "pass", "")
	expect(t, only(t, run(t, measured(0.02, 0.001), `check "monotonic" {}`)), "fail", "above the floor")
}

func TestThrottled(t *testing.T) {
	ds := measured(1, 2, 3, 4)
	expect(t, only(t, run(t, ds, `check "throttled" {}`)), "fail", "no column")
	unread := with(ds, "throttled", table.Flags(make([]bool, 4), []bool{true, false, false, false}))
	expect(t, only(t, run(t, unread, `check "throttled" {}`)), "fail",
		"3 of 4 could not be judged: whether it was throttled was not read")
	hot := with(ds, "throttled", table.Flags([]bool{true, false, false, false}, nil))
	expect(t, only(t, run(t, hot, `check "throttled" {}`)), "fail", "1 of 4 rows", "m=1 ")
	expect(t, only(t, run(t, hot, `check "throttled" { max = 0.25 }`)), "pass", "")
}

func TestCudaGraph(t *testing.T) {
	ds := measured(1, 2, 3, 4)
	expect(t, only(t, run(t, ds, `check "cuda_graph" {}`)), "fail", "no column")
	unread := with(ds, "used_cuda_graph", table.Flags([]bool{true, true, true, true}, []bool{true, false, true, true}))
	expect(t, only(t, run(t, unread, `check "cuda_graph" {}`)), "fail",
		"1 of 4 could not be judged: whether a CUDA graph was used was not said")
	eager := with(ds, "used_cuda_graph", table.Flags([]bool{false, true, true, true}, nil))
	expect(t, only(t, run(t, eager, `check "cuda_graph" {}`)), "fail", "1 of 4 rows", "m=1 ")
	expect(t, only(t, run(t, eager, `check "cuda_graph" { max = 0.25 }`)), "pass", "")
}

func TestDeviation(t *testing.T) {
	ref, ds := measured(1, 2, 3, 4), measured(1.01, 2.02, 3.03, 6)
	ok := `check "deviation" {
		reference = import.old
		median    = 0.02
	}`

	expect(t, only(t, run(t, ds, ok, ref)), "pass", "over 4 common rows")
	got := only(t, run(t, ds, "check \"deviation\" {\nreference = import.old\nmedian = 0.005\np95_max = 1.2\n}", ref))
	expect(t, got, "fail", "p50 is more than 0.005 from 1, p95 is above 1.2")

	if !strings.Contains(got.Rows[0], "m=8 n=4096 k=4096 latency=6 reference=4 ratio=1.500") {
		t.Errorf("rows %q", got.Rows)
	}

	expect(t, only(t, run(t, ds, "check \"deviation\" {\nreference = import.old\np95_max = 1.1\non = { m = [1, 2] }\n}", ref)), "pass", "over 2 common rows")
}

func TestBadChecks(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{`check "speed_of_light" { system = var.limit }`, "must refer to a system"},
		{`check "deviation" { reference = import.old }`, "Give median"},
		{"check \"deviation\" {\nreference = var.limit\nmedian = 1\n}", "must refer to a stage"},
		{`check "monotonic" { ratio = 2 }`, "at most 1"},
		{`check "spikes" { ratio = 0.5 }`, "above 1"},
		{`check "throttled" { max = 5 }`, "between 0 and 1"},
		{`check "cuda_graph" { max = 5 }`, "between 0 and 1"},
		{`check "throttled" { min_judged = 5 }`, "between 0 and 1"},
		{"check \"noise\" {\nmax = 1\npercentile = 0.95\n}", "Write 95"},
	} {
		_, diags := decode(t, "input = dedupe.gemm\n"+tt.src)
		found := false
		for _, d := range diags {
			found = found || strings.Contains(d.Summary+d.Detail, tt.want) && d.Subject != nil
		}

		if !found {
			t.Errorf("%s: %v, want %q", tt.src, diags, tt.want)
		}

		if !diags.HasErrors() {
			t.Errorf("%s is accepted", tt.src)
		}
	}
}

// Every check's limits are in the fingerprint.
func TestEveryLimitIsInTheFingerprint(t *testing.T) {
	pairs := [][2]string{
		{`check "coverage" { min = 0.9 }`, `check "coverage" { min = 0.8 }`},
		{`check "duplicates" {}`, `check "duplicates" { max = 1 }`},
		{`check "noise" { max = 0.1 }`, `check "noise" { max = 0.2 }`},
		{`check "power" {}`, `check "power" { system = system.h200_sxm }`},
		{`check "speed_of_light" { system = system.h200_sxm }`,
			"check \"speed_of_light\" {\nsystem = system.h200_sxm\ntolerance = 0.5\n}"},
		{`check "monotonic" {}`, `check "monotonic" { max = 1 }`},
		{`check "monotonic" {}`, `check "spikes" {}`},
		{`check "throttled" {}`, `check "throttled" { max = 0.1 }`},
		{`check "provenance" {}`, `check "provenance" { system = system.h200_sxm }`},
		{`check "positive" {}`, `check "positive" { on = { m = 1 } }`},
		{`check "positive" {}`, `check "positive" { min_judged = 0.5 }`},
	}

	print := func(src string) string {
		b, err := json.Marshal(stage.Identity(Kind(), mustDecode(t, "input = dedupe.gemm\n"+src)))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, p := range pairs {
		if print(p[0]) == print(p[1]) {
			t.Errorf("%s and %s have one fingerprint: %s", p[0], p[1], print(p[0]))
		}
	}
}

// Checks of a dataset without a table or with strange columns answer, they do
// not panic.
func TestNoTable(t *testing.T) {
	checks := []string{"positive", "duplicates", "schema", "provenance", "power", "monotonic", "spikes",
		"throttled", "coverage"}
	odd := measured(1, 2)
	odd.Table = table.NewRecord([]string{"latency", "m", "power", "throttled", "case_id", "framework"}, []arrow.Array{
		table.Texts([]string{"a", "b"}, nil), table.Texts([]string{"a", "b"}, nil), table.Nulls(table.Float64, 2),
		table.Nulls(table.Bool, 2), table.Nulls(table.String, 2), table.Nulls(table.String, 2)})
	for _, ds := range []*stage.Dataset{{}, odd,
		{Planned: table.NewRecord([]string{"case_id"}, []arrow.Array{table.Texts(nil, nil)})}} {
		for _, c := range checks {
			if got := only(t, run(t, ds, fmt.Sprintf("check %q {}", c))); got.Message == "" {
				t.Errorf("%s says nothing", c)
			}
		}

		only(t, run(t, ds, "check \"range\" {\ncolumn = \"latency\"\nmin = 0\n}"))
		only(t, run(t, ds, `check "speed_of_light" { system = system.h200_sxm }`))
		only(t, run(t, ds, "check \"deviation\" {\nreference = import.old\nmedian = 1\n}", measured(1)))
		only(t, run(t, ds, `assert "a" { condition = count > 0 && coverage > 0 && p95.latency > 0 }`))
	}
}

func systemValue(t testing.TB) cty.Value {
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.SystemType, spec)})
}

// Limits and shares that nothing can have judge nothing.
func TestImpossibleLimits(t *testing.T) {
	t.Parallel()

	for src, c := range map[string]struct {
		column, why string
		cells       []float64
	}{
		`check "power" {}`:        {"power_limit", "no limit is known", []float64{700, 1e308, 700, 700, 700, 700, 700, 700}},
		`check "prefix_cache" {}`: {"cache_hit_rate", "its hit rate is no share", []float64{0, -3, 0, 0, 0, 0, 0, 0}},
	} {
		ds := flawless(8)
		ds.Table = table.WithColumn(ds.Table, c.column, table.Floats(c.cells, nil))
		if got := only(t, run(t, ds, src)); got.Result != ResultFail || got.Judged != 7 ||
			!strings.Contains(got.Message, c.why) {
			t.Errorf("%s: %s, %d judged: %s", src, got.Result, got.Judged, got.Message)
		}
	}
}
