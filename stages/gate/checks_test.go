package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/config"
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
	lost := *ds
	lost.Table = table.Drop(ds.Table, "device")
	if got := only(t, run(t, &lost, `check "provenance" {}`)); !strings.Contains(got.Fix, "device in the import") {
		t.Errorf("the next step is %q", got.Fix)
	}
}

// power adds a column of watts to a dataset.
func power(ds *stage.Dataset, watts ...float64) *stage.Dataset {
	return with(ds, "power", table.Floats(watts, nil))
}

// TestRowsWithoutQuotient does not judge rows whose condition divides by zero.
func TestRowsWithoutQuotient(t *testing.T) {
	t.Parallel()
	ds := with(with(dataset(1, 2), "a", table.Floats([]float64{3, 0}, nil)), "b", table.Floats([]float64{2, 0}, nil))
	for _, condition := range []string{"a / b != 7", "!(a / b > 2)", "a > 0 || a / b < 2", "(a + 1) / b > 1"} {
		expect(t, only(t, run(t, ds, `check "rows" { condition = `+condition+` }`)), "fail",
			"1 of 2 could not be judged: the condition divides by zero")
	}
}

func TestLimits(t *testing.T) {
	const check = `check "limits" { system = system.h200_sxm }`

	// 4096 x 4096 weights in bfloat16 are 33.5 MB: at 4.8 TB/s no less than 7 us.
	expect(t, only(t, run(t, measured(0.008, 0.0085, 0.009), check)), "pass", "3 rows have possible values of latency")
	for name, c := range map[string]struct {
		ds      *stage.Dataset
		message string
	}{
		"faster than the peaks": {measured(0.008, 0.0085, 0.002), "m=4 n=4096"},
		"shorter than a launch": {measured(0.008, 0.0085, 1e-9), "no launch is shorter than 0.5 us"},
		"twelve days":           {measured(0.008, 0.0085, 1e9), "above 100 s"},
		"zero":                  {measured(0.008, 0.0085, 0), "latency is zero"},
		"null":                  {with(measured(1, 2), "latency", table.Nulls(table.Float64, 2)), "latency has no value"},
		"infinite":              {measured(0.008, math.Inf(1)), "latency is infinite"},
		"above the system's power": {with(power(measured(0.008, 0.0085), 300, 5000), "power_limit",
			table.Constant(1e6, 2)), "5000 W, and the limit is 700 W"},
		"above its own limit": {with(power(measured(0.008, 0.0085), 300, 550), "power_limit",
			table.Constant(500.0, 2)), "550 W, and the limit is 500 W"},
		"no power": {power(measured(0.008, 0.0085), 300, 0), "power is 0"},
	} {
		got := only(t, run(t, c.ds, check))
		if got.Result != ResultFail || !strings.Contains(got.Message+strings.Join(got.Rows, " "), c.message) {
			t.Errorf("%s: %s %s %q, want %q", name, got.Result, got.Message, got.Rows, c.message)
		}
	}

	clamped := measured(0.008, 0)
	clamped.Info.Perf = "computescale_perf"
	expect(t, only(t, run(t, clamped, `check "limits" {}`)), "pass", "2 rows")

	other := measured(0.008, 0.0085)
	other.Info.Perf = "nccl_perf"
	expect(t, only(t, run(t, other, check)), "pass", "2 rows have possible values")
}

func TestTrend(t *testing.T) {
	smooth := make([]float64, 20)
	for i := range smooth {
		smooth[i] = 0.04 * math.Pow(1.5, float64(i))
	}
	expect(t, only(t, run(t, measured(smooth...), `check "trend" {}`)), "pass", "0 rows are more than 1.7 times apart")

	single := slices.Clone(smooth)
	single[5] *= 3
	expect(t, only(t, run(t, measured(single...), `check "trend" {}`)), "pass", "0 rows")
	single[5] *= 100
	expect(t, only(t, run(t, measured(single...), `check "trend" {}`)), "fail", "1 rows", "m=32 ")

	many := slices.Clone(smooth)
	for i := 2; i < 18; i += 3 {
		many[i] *= 3
	}
	expect(t, only(t, run(t, measured(many...), `check "trend" {}`)), "fail", "18 rows are more than 1.7 times apart")

	expect(t, only(t, run(t, measured(1, 2), `check "trend" {}`)), "fail", "no row has neighbours on both sides")
	expect(t, only(t, run(t, measured(1, 2), `check "trend" { min_judged = 0 }`)), "skip", "no row has neighbours")
}

// twoDtypes has the rows of measured for two dtypes; those of the second one take times as long.
func twoDtypes(n int, times float64) *stage.Dataset {
	lat := make([]float64, 2*n)
	ms := make([]int64, 2*n)
	words := make([]string, 2*n)
	for i := range n {
		lat[i] = 0.0312345678912 * math.Pow(1.7, float64(i))
		lat[n+i] = lat[i] * times
		ms[i], ms[n+i] = 1<<i, 1<<i
		words[i], words[n+i] = "bfloat16", "fp8"
	}
	ds := measured(lat...)
	return with(with(ds, "m", table.Ints(ms, nil)), "gemm_dtype", table.Texts(words, nil))
}

func TestCopies(t *testing.T) {
	expect(t, only(t, run(t, twoDtypes(12, 0.7), `check "copies" {}`)), "pass", "no group of the 24 rows")
	expect(t, only(t, run(t, twoDtypes(12, 1), `check "copies" {}`)), "fail",
		"24 of 24 rows have to the last digit the latency of a row with another gemm_dtype")
}

func TestRows(t *testing.T) {
	ds := dataset(1, 2, 30)
	got := only(t, run(t, ds, `check "rows" { condition = latency >= 1 && latency <= 2 }`))
	if got.Name != "latency >= 1 && latency <= 2" || got.Result != "fail" || got.Value != "33.33 %" ||
		len(got.Rows) != 1 || !strings.Contains(got.Rows[0], "m=3 gemm_dtype=float32 latency=30") {
		t.Errorf("%+v", got)
	}

	for _, c := range []struct{ body, result, message string }{
		{"condition = latency < 10\nmax_share = 0.34", "pass", "latency < 10 is true for 2 of 3 rows"},
		{"condition = latency < var.limit\nmax_share = 0.34", "pass", "latency < var.limit is true for 2 of 3 rows"},
		{"condition = latency < 10\nname = \"short\"\nfix = \"collect again\"", "fail",
			"latency < 10 is true for 2 of 3 rows"},
		{"condition = gemm_dtype == \"float32\"\nmax_share = 0.4", "pass", "is true for 2 of 3 rows"},
		{"condition = latencyy > 0", "fail",
			`none of 3 could be judged: the data has no column "latencyy". Did you mean "latency"?`},
		{"condition = latencyy > 0\nmin_judged = 0", "skip", "no column"},
		{"condition = coalesce(other, latency) > 0", "pass", "is true for 3 of 3 rows"},
		{"condition = gemm_dtype > 3", "fail", "the condition cannot be evaluated: "},
	} {
		got := only(t, run(t, ds, "check \"rows\" {\n"+c.body+"\n}"))
		expect(t, got, c.result, c.message)
		if strings.Contains(c.body, "fix") && (got.Name != "short" || got.Fix != "collect again") {
			t.Errorf("%+v", got)
		}
	}

	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		expect(t, only(t, run(t, dataset(1, v), `check "rows" { condition = latency > 0 }`)), "fail",
			"1 of 2 could not be judged: latency is not finite")
	}
}

// A measured 0.1 equals a plan's 0.1.
func TestLimitsCompareNatively(t *testing.T) {
	ds := dataset(0.1, 0.1)
	for _, check := range []string{
		`check "rows" { condition = latency <= 0.1 }`, `check "rows" { condition = latency == 0.1 }`,
		`check "rows" { condition = latency <= 0.1 && coalesce(latency, 0) == 0.1 }`,
		`check "rows" { condition = !(coalesce(latency, 0) > 0.1) }`, // HCL evaluates it
		`assert "a" { condition = max.latency <= 0.1 && min.latency == 0.1 }`,
	} {
		if got := only(t, run(t, ds, check)); got.Result != "pass" {
			t.Errorf("%s: %+v", check, got)
		}
	}
}

// TestCoalesceIsEvaluatedNatively checks that conditions over optional columns do not need HCL, which took most of the
// time of a gate, and that both agree.
func TestCoalesceIsEvaluatedNatively(t *testing.T) {
	ds := measured(0.05, 0.2, 0.05, 0.2)
	ds = with(ds, "bound", table.Flags([]bool{true, true, false, false}, []bool{true, false, true, false}))
	for condition, want := range map[string][]float64{
		`!coalesce(bound, latency <= 0.1)`:  {0, 1, 1, 1},
		`!coalesce(absent, latency <= 0.1)`: {0, 1, 0, 1},
		`coalesce(k, 0) > 1`:                {1, 1, 1, 1},
		`coalesce(bound, bound)`:            nil, // null remains
		`coalesce(bound, 1) == 1`:           nil,
		`coalesce(bound, true) || bound`:    nil, // the second one may be null
		`coalesce(latency / 2, 0) > 1`:      nil, // HCL does not divide null
	} {
		expr, diags := hclsyntax.ParseExpression([]byte(condition), "", hcl.InitialPos)
		must(t, errors.Join(diags.Errs()...))
		c := &rowsCheck{Condition: expr, names: columnNamesOf(expr), ctx: &hcl.EvalContext{Functions: config.Functions()}}

		values := c.values()
		read := map[string]func(int) (cty.Value, string){}
		for _, name := range c.names {
			read[name] = values.read(ds.Table, name)
		}

		at, flag := values.compile(expr)
		if (at != nil && flag) != (want != nil) {
			t.Errorf("%s is evaluated natively: %v", condition, at != nil)
		}
		for row, is := range want {
			vars := map[string]cty.Value{}
			for name, cell := range read {
				vars[name], _ = cell(row)
			}
			holds, why, err := c.holds(vars, "")
			if got := at(row); got != is || holds != (is == 1) || why != "" || err != nil {
				t.Errorf("%s in row %d: %v natively, %v by HCL (%s, %v), want %v", condition, row, got, holds, why, err, is)
			}
		}
	}
}

// TestColumnsInAndOutsideCoalesce checks that a row is not judged if the condition needs a value that is null.
func TestColumnsInAndOutsideCoalesce(t *testing.T) {
	ds := measured(0.05, 0.2)
	ds = with(ds, "x", table.Floats([]float64{1, 0}, []bool{true, false}))
	expect(t, only(t, run(t, ds, "check \"rows\" { condition = coalesce(x, 0) >= 0 && x < 5 }")), "fail",
		"is true for 1 of 1 rows; 1 of 2 could not be judged: x is null")
}

func TestCompare(t *testing.T) {
	ref, ds := measured(1, 2, 3, 4), measured(1.01, 2.02, 3.03, 6)
	check := func(limits string) string { return "check \"compare\" {\nreference = import.old\n" + limits + "\n}" }
	expect(t, only(t, run(t, ds, check("median = 0.02"), ref)), "pass", "over 4 common rows")

	got := only(t, run(t, ds, check("median = 0.005\nspread = 0.2"), ref))
	expect(t, got, "fail", "and not |p50 - 1| at most 0.005, p5 and p95 from p50 at most 0.2")
	if !strings.Contains(got.Rows[0], "m=8 n=4096 k=4096 latency=6 reference=4 ratio=1.500") {
		t.Errorf("rows %q", got.Rows)
	}

	expect(t, only(t, run(t, ds, check("spread = 0.2"), ref)), "fail", "p5 and p95 from p50 at most 0.2")
	expect(t, only(t, run(t, ds, check("spread = 0.6"), ref)), "pass", "")
	expect(t, only(t, run(t, measured(1, 2, 3, 4.5), check("outliers = 0.2"), ref)), "pass", "")
	expect(t, only(t, run(t, measured(1, 2, 3, 9), check("outliers = 0.2"), ref)), "fail",
		"off the median by a factor of 1.8 at most 0.2")
	expect(t, only(t, run(t, measured(1000, 2000, 3000, 4000), check("median = 0.3"), ref)), "fail", "p50 1000.000")

	// The rows of a word are compared with all rows, however few there are.
	kernels := slices.Concat(slices.Repeat([]string{"a"}, 580), slices.Repeat([]string{"b"}, 20))
	of := func(v float64) *stage.Dataset {
		ds := measured(slices.Concat(slices.Repeat([]float64{1}, 580), slices.Repeat([]float64{v}, 20))...)
		sizes := make([]int64, 600)
		for i := range sizes {
			sizes[i] = int64(i + 1)
		}
		return with(with(ds, "m", table.Ints(sizes, nil)), "kernel_source", table.Texts(kernels, nil))
	}
	expect(t, only(t, run(t, of(1.15), check("spread = 0.2"), of(1))), "pass", "")
	expect(t, only(t, run(t, of(1.5), check("spread = 0.2"), of(1))), "fail",
		"and not p50 of the 20 rows of kernel_source=b, which is 1.500, at most 0.2 from p50")

	// A row that the reference lacks is not judged.
	expect(t, only(t, run(t, ds, check("median = 0.02"), measured(1, 2, 3))), "fail",
		"1 of 4 could not be judged: import.old has no row of its key")
	expect(t, only(t, run(t, ds, check("median = 0.02\nmin_judged = 0.75"), measured(1, 2, 3))), "pass", "over 3 common")
}

// A share of 99 % may hide all cases of the largest size.
func TestCoverageNamesMissingValues(t *testing.T) {
	dtypes := slices.Concat(slices.Repeat([]string{"bfloat16"}, 37), slices.Repeat([]string{"fp8"}, 3))
	ds := with(measured(slices.Repeat([]float64{1}, 40)...), "gemm_dtype", table.Texts(dtypes, nil))
	ds.Planned = ds.Table
	ds.Table = ds.Table.NewSlice(0, 37)
	expect(t, only(t, run(t, ds, `check "coverage" { min = 0.9 }`)), "fail", "no row at all has gemm_dtype=fp8 (3 cases)")
	expect(t, only(t, run(t, ds, `check "coverage" { min = 0.8 }`)), "pass", "gemm_dtype=fp8")

	whole := *ds
	whole.Table, ds.Planned = ds.Planned, nil
	expect(t, only(t, run(t, ds, `check "coverage" { reference = import.old }`, &whole)), "fail",
		"37 of 40 keys of import.old have a row (92.50 %)")
}

func TestBadChecks(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{`check "limits" { system = var.limit }`, "must refer to a system"},
		{`check "compare" { reference = import.old }`, "Give median"},
		{"check \"compare\" {\nreference = var.limit\nmedian = 1\n}", "must refer to a stage"},
		{"check \"rows\" {\ncondition = latency > 0\nmax_share = 5\n}", "between 0 and 1"},
		{`check "schema" { min_judged = 5 }`, "between 0 and 1"},
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
		{`check "coverage" {}`, `check "coverage" { by_key = true }`},
		{`check "duplicates" {}`, `check "duplicates" { max = 1 }`},
		{`check "rows" { condition = m > 0 }`, `check "rows" { condition = m > 1 }`},
		{`check "rows" { condition = m > 0 }`, "check \"rows\" {\ncondition = m > 0\nmax_share = 0.1\n}"},
		{`check "limits" {}`, `check "limits" { system = system.h200_sxm }`},
		{`check "limits" {}`, `check "limits" { tolerance = 0.5 }`},
		{`check "trend" {}`, `check "copies" {}`},
		{`check "provenance" {}`, `check "provenance" { system = system.h200_sxm }`},
		{`check "schema" {}`, `check "schema" { min_judged = 0.5 }`},
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
	checks := []string{"duplicates", "schema", "provenance", "limits", "trend", "copies", "coverage"}
	odd := measured(1, 2)
	odd.Table = table.NewRecord([]string{"latency", "m", "power", "throttled", "case_id", "framework"}, []arrow.Array{
		table.Texts([]string{"a", "b"}, nil), table.Texts([]string{"a", "b"}, nil), table.Nulls(table.Float64, 2),
		table.Nulls(table.Bool, 2), table.Nulls(table.String, 2), table.Nulls(table.String, 2)})
	for _, ds := range []*stage.Dataset{{}, odd,
		{Planned: table.NewRecord([]string{"case_id"}, []arrow.Array{table.Texts(nil, nil)})}} {
		for _, c := range checks {
			if got := only(t, run(t, ds, fmt.Sprintf("check %q {}", c))); got.Message == "" {
				t.Errorf("%s has no message", c)
			}
		}

		only(t, run(t, ds, `check "rows" { condition = latency > 0 }`))
		only(t, run(t, ds, `check "limits" { system = system.h200_sxm }`))
		only(t, run(t, ds, "check \"compare\" {\nreference = import.old\nmedian = 1\n}", measured(1)))
		only(t, run(t, ds, `assert "a" { condition = count > 0 && p95.latency > 0 }`))
	}
}

func systemValue(t testing.TB) cty.Value {
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.SystemType, spec)})
}
