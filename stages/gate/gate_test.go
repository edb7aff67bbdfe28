package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// scope is an Evaluator over fixed values, with the rule of the engine:
// unknown roots that the caller does not bind are diagnostics.
type scope map[string]cty.Value

// sourced is a scope for expressions of a text.
type sourced struct {
	scope
	src string
}

func (s sourced) Text(r hcl.Range) string { return string(r.SliceBytes([]byte(s.src))) }

func (s scope) Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	for _, e := range exprs {
		for _, t := range e.Variables() {
			if _, ok := s[t.RootName()]; !ok && !bound[t.RootName()] {
				diags = append(diags, stage.ErrorAt(t.SourceRange(), "Unknown name", "%s", t.RootName())...)
			}
		}
	}

	return &hcl.EvalContext{Variables: s,
		Functions: map[string]function.Function{"abs": stdlib.AbsoluteFunc, "coalesce": stdlib.CoalesceFunc}}, diags
}

func refValue(kind, name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: kind + "." + name, Kind: kind})})
}

func testScope(t testing.TB) scope {
	return scope{
		"dedupe": cty.ObjectVal(map[string]cty.Value{"gemm": refValue("dedupe", "gemm")}),
		"import": cty.ObjectVal(map[string]cty.Value{"old": refValue("import", "old")}),
		"system": cty.ObjectVal(map[string]cty.Value{"h200_sxm": systemValue(t)}),
		"var":    cty.ObjectVal(map[string]cty.Value{"limit": cty.NumberIntVal(3), "later": cty.UnknownVal(cty.Number)}),
	}
}

func decode(t testing.TB, src string) (*Config, hcl.Diagnostics) {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "plan.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c := Kind().New().(*Config)
	return c, c.DecodeBody(f.Body, sourced{testScope(t), src})
}

func mustDecode(t testing.TB, src string) *Config {
	t.Helper()
	c, diags := decode(t, src)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return c
}

type silent struct{ stage.Events }

func (silent) Message(string, string, string) {}

func run(t testing.TB, ds *stage.Dataset, checks string, refs ...*stage.Dataset) *stage.Outcome {
	t.Helper()
	c := mustDecode(t, "input = dedupe.gemm\n"+checks)

	inputs := map[string]*stage.Dataset{}
	for i, in := range c.Inputs() {
		if i == 0 {
			inputs[in.Name] = ds
		} else {
			inputs[in.Name] = refs[i-1]
		}
	}

	out, err := c.Run(t.Context(), &stage.RunContext{Address: "gate.t", Events: silent{}, Inputs: inputs})
	if err != nil {
		t.Fatal(err)
	}

	return out
}

func only(t testing.TB, out *stage.Outcome) stage.CheckResult {
	t.Helper()
	if len(out.Checks) != 1 {
		t.Fatalf("%d results, want 1", len(out.Checks))
	}
	return out.Checks[0]
}

// dataset has cases m = 1..len(latency); a latency of -1 stands for a case
// without a row.
func dataset(latency ...float64) *stage.Dataset {
	var ids, dtypes, caseIDs, rowDtypes []string
	var ms, rowMs []int64
	var lats, stdev []float64

	var lost []string
	for i, l := range latency {
		id := fmt.Sprintf("c%d", i+1)
		dtype := "float32"
		if i%2 == 1 {
			dtype = "float64"
		}

		ids, ms, dtypes = append(ids, id), append(ms, int64(i+1)), append(dtypes, dtype)

		if l == -1 {
			lost = append(lost, id)
			continue
		}

		caseIDs, rowMs, rowDtypes = append(caseIDs, id), append(rowMs, int64(i+1)), append(rowDtypes, dtype)
		lats, stdev = append(lats, l), append(stdev, float64(i+1)/100)
	}

	fill := func(s string) []string {
		out := make([]string, len(lost))
		for i := range out {
			out[i] = s
		}
		return out
	}

	ds := &stage.Dataset{
		Planned: table.NewRecord([]string{"case_id", "m", "gemm_dtype"},
			[]arrow.Array{table.Texts(ids, nil), table.Ints(ms, nil), table.Texts(dtypes, nil)}),
		Table: table.NewRecord([]string{"case_id", "m", "gemm_dtype", "latency", "rel_stdev"}, []arrow.Array{
			table.Texts(caseIDs, nil), table.Ints(rowMs, nil), table.Texts(rowDtypes, nil), table.Floats(lats, nil),
			table.Floats(stdev, nil)}),
		Info: stage.Info{Op: "gemm", Params: []string{"m", "gemm_dtype"}},
	}

	ds.Ledger = table.NewRecord([]string{"case_id", "status", "class", "message"}, []arrow.Array{
		table.Texts(lost, nil), table.Texts(fill("failed"), nil), table.Texts(fill("unsupported_config"), nil),
		table.Texts(fill("no such kernel"), nil)})
	return ds
}

func TestCoverage(t *testing.T) {
	ds := dataset(1, 2, 3, -1)
	tests := []struct{ checks, result, message string }{
		{`check "coverage" {}`, "fail", "3 of 4 planned cases have a row (75.00 %); missing: 1 unsupported_config"},
		{`check "coverage" { min = 0.75 }`, "pass", "3 of 4"},
		{`check "coverage" { excuse = ["unsupported_config"] }`, "pass",
			"3 of 3 planned cases have a row (100.00 %); 1 excused"},
		{`check "coverage" { severity = "warn" }`, "warn", "3 of 4"},
	}
	for _, tt := range tests {
		got := only(t, run(t, ds, tt.checks))
		if got.Result != tt.result || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s\n got %s: %s\nwant %s: %s", tt.checks, got.Result, got.Message, tt.result, tt.message)
		}
		if tt.result == "fail" && (len(got.Rows) != 1 ||
			!strings.Contains(got.Rows[0], "m=4 gemm_dtype=float64 (unsupported_config: no such kernel)")) {
			t.Errorf("%s: rows %q do not name the lost case", tt.checks, got.Rows)
		}
	}
}

// TestCoverageByKey: two kernels measured one shape and dedupe kept the faster.
// The shape is covered, the case that went is not.
func TestCoverageByKey(t *testing.T) {
	words := func(w ...string) arrow.Array { return table.Texts(w, nil) }
	ds := &stage.Dataset{
		Planned: table.NewRecord([]string{"case_id", "gemm_dtype", "m", "n", "k", "kernel_source"}, []arrow.Array{
			words("a", "b", "c"), words("fp8", "fp8", "fp8"), table.Ints([]int64{1, 1, 2}, nil),
			table.Ints([]int64{8, 8, 8}, nil), table.Ints([]int64{8, 8, 8}, nil), words("x", "y", "x")}),
		Table: table.NewRecord([]string{"case_id", "gemm_dtype", "m", "n", "k", "kernel_source", "latency"}, []arrow.Array{
			words("b"), words("fp8"), table.Ints([]int64{1}, nil), table.Ints([]int64{8}, nil),
			table.Ints([]int64{8}, nil), words("y"), table.Floats([]float64{1}, nil)}),
		Info: stage.Info{Op: "gemm", Perf: "gemm_perf", Params: []string{"gemm_dtype", "m", "n", "k", "kernel_source"}},
	}
	for check, want := range map[string]string{
		`check "coverage" {}`:                "1 of 3 planned cases",
		`check "coverage" { by_key = true }`: "1 of 2 planned keys",
	} {
		if got := only(t, run(t, ds, check)); got.Result != "fail" || !strings.Contains(got.Message, want) {
			t.Errorf("%s: %+v, want %q", check, got, want)
		}
	}
}

func TestCoverageOfImportedDataIsNotJudged(t *testing.T) {
	ds := dataset(1, 2)
	ds.Planned = nil
	for check, want := range map[string]string{`check "coverage" {}`: "fail",
		`check "coverage" { min_judged = 0 }`: "skip"} {
		if got := only(t, run(t, ds, check)); got.Result != want || got.Judged != 0 || got.Total != 2 {
			t.Errorf("%s: %+v, want %s", check, got, want)
		}
	}
}

func TestDuplicates(t *testing.T) {
	ds := dataset(1, 2, 3)
	if got := only(t, run(t, ds, `check "duplicates" {}`)); got.Result != "pass" {
		t.Errorf("%+v", got)
	}

	twice := dataset(1, 2, 3)
	twice.Table = table.WithColumn(twice.Table, "m", table.Ints([]int64{1, 1, 1}, nil))
	got := only(t, run(t, twice, `check "duplicates" {}`))
	if got.Result != "fail" || !strings.Contains(got.Rows[0], "m=1 gemm_dtype=float32: 2 rows, latency 1 3, max/min 3") {
		t.Errorf("%+v", got)
	}

	if got := only(t, run(t, twice, `check "duplicates" { max = 1 }`)); got.Result != "pass" {
		t.Errorf("%+v", got)
	}
}

// TestRowsOfOneCase checks that findings identify the row of a case that was measured in two ways.
func TestRowsOfOneCase(t *testing.T) {
	rec := table.NewRecord(
		[]string{"case_id", "allreduce_dtype", "num_gpus", "message_size", "kernel_source", "latency", "rel_stdev"},
		[]arrow.Array{
			table.Texts([]string{"a", "a", "b"}, nil), table.Constant("bfloat16", 3), table.Constant(int64(2), 3),
			table.Ints([]int64{128, 128, 256}, nil),
			table.Texts([]string{"graph", "eager", "graph"}, nil), table.Floats([]float64{1, 2, 3}, nil),
			table.Floats([]float64{0, 0, 0}, []bool{false, false, false}),
		})

	ds := &stage.Dataset{Table: rec, Info: stage.Info{Op: "custom_allreduce", Perf: "custom_allreduce_perf",
		Params: []string{"allreduce_dtype", "num_gpus", "message_size"}}}
	got := only(t, run(t, ds, `check "rows" { condition = rel_stdev <= 0.1 }`))

	want := []string{"message_size=128 kernel_source=graph (", "message_size=128 kernel_source=eager (",
		"message_size=256 ("}
	if len(got.Rows) != len(want) {
		t.Fatalf("%+v", got)
	}

	for i, row := range got.Rows {
		if !strings.Contains(row, want[i]) {
			t.Errorf("%s lacks %s", row, want[i])
		}
	}
}

func TestAssert(t *testing.T) {
	ds := dataset(1, 2, 3, -1)
	tests := []struct{ expr, result, message string }{
		{`count >= var.limit`, "pass", "count = 3"},
		{`median.latency > 2.5`, "fail", "too slow (median.latency = 2)"},
		{`distinct.gemm_dtype == 2 && count == 3`, "pass", "distinct.gemm_dtype = 2"},
		{`abs(mean.latency - 2) < 0.001 && sum.latency == 6 && nulls.latency == 0`, "pass", "mean.latency = 2"},
		// As the rows' own statistics: linear between ranks, n - 1.
		{`median.m == 2 && stdev.m == 1 && abs(p25.m - 1.5) < 0.001`, "pass", "stdev.m = 1"},
		{`max.latencies > 0`, "fail", `no column "latencies". Did you mean "latency"?`},
	}
	for _, tt := range tests {
		got := only(t, run(t, ds, fmt.Sprintf("assert \"speed\" {\ncondition = %s\nmessage = \"too slow\"\n}", tt.expr)))
		if got.Result != tt.result || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s\n got %s: %s\nwant %s: %s", tt.expr, got.Result, got.Message, tt.result, tt.message)
		}
	}
}

func TestOutcome(t *testing.T) {
	ds := dataset(1, 0)
	out := run(t, ds, "check \"rows\" {\ncondition = latency > 0\nseverity = \"warn\"\n}\ncheck \"duplicates\" {}")
	if out.Status != stage.StatusOK || out.NoReuse || out.Message != "1 of 2 checks warn" || out.Data != ds {
		t.Errorf("%+v", out)
	}

	out = run(t, ds, `check "rows" { condition = latency > 0 }`)
	if out.Status != stage.StatusGateFailed || !out.NoReuse || !out.Values["passed"].RawEquals(cty.False) {
		t.Errorf("%+v", out)
	}

	if out.Checks[0].Pos != "plan.hcl:2" {
		t.Errorf("position %q, want plan.hcl:2", out.Checks[0].Pos)
	}
}

func TestBadGates(t *testing.T) {
	tests := []struct {
		src  string
		line int
		want string
	}{
		{"input = dedupe.gemm", 1, "at least one check"},
		{"input = var.limit\ncheck \"schema\" {}", 1, "must refer to a stage"},
		{"input = dedupe.gemm\ncheck \"limit\" {}", 2, `Did you mean "limits"?`},
		{"input = dedupe.gemm\ncheck \"rows\" {}", 2, "condition"},
		{"input = dedupe.gemm\ncheck \"rows\" { condition = var.limit > 1 }", 2, "names no column"},
		{"input = dedupe.gemm\ncheck \"rows\" { condition = var.limits > latency }", 2, "limits"},
		{"input = dedupe.gemm\ncheck \"rows\" { condition = latency + 1 }", 2, "not true or false"},
		{"input = dedupe.gemm\ncheck \"rows\" {\nmax_shar = 1\ncondition = latency > 0\n}", 3, `"max_share"`},
		{"input = dedupe.gemm\ncheck \"schema\" {\nseverity = \"error\"\n}", 3, `"fail" or "warn"`},
		{"input = dedupe.gemm\nassert \"a\" { condition = max.latency }", 2, "The condition is a number, not true or false"},
		{"input = dedupe.gemm\nassert \"a\" { condition = max.latency < \"x\" }", 2, "a number is required"},
		{"input = dedupe.gemm\nassert \"a\" { condition = max.latency < 1 && count }", 2, "bool required"},
		{"input = dedupe.gemm\ncheck \"coverage\" {\nmin = 99\n}", 2, "between 0 and 1"},
		{"input = dedupe.gemm\ncheck \"coverage\" {\nexcuse = [\"unsuported_config\"]\n}", 2,
			`Did you mean "unsupported_config"?`},
		{"input = dedupe.gemm\nassert \"a\" {\ncondition = true\n}", 3, "names no aggregate"},
		{"input = dedupe.gemm\nassert \"a\" {\ncondition = min > 1\n}", 3, "min.COLUMN"},
		{"input = dedupe.gemm\nassert \"a\" {\ncondition = cuont > 1\n}", 3, "cuont"},
		{"input = dedupe.gemm\nassert \"a\" {\ncondition = count > var.later\n}", 3,
			"var.later is known only after its stage ran"},
	}
	for _, tt := range tests {
		_, diags := decode(t, tt.src)
		if !diags.HasErrors() {
			t.Errorf("%q is accepted", tt.src)
			continue
		}

		found := false
		for _, d := range diags {
			found = found || d.Subject != nil && d.Subject.Start.Line == tt.line && strings.Contains(d.Summary+d.Detail, tt.want)
		}

		if !found {
			t.Errorf("%q\n got %v\nwant %q at line %d", tt.src, diags, tt.want, tt.line)
		}
	}
}

// Layout and comments leave the fingerprint alone; limits and severities
// change it.
func TestFingerprint(t *testing.T) {
	print := func(src string) string {
		return fmt.Sprintf("%+v", stage.Identity(Kind(), mustDecode(t, "input = dedupe.gemm\n"+src)))
	}

	base := print(`assert "a" { condition = count > 3 && min.latency > var.limit }`)
	same := print("assert \"a\" {\n  # a comment\n  condition = count>3   && min.latency>var.limit # another\n}")
	if same != base {
		t.Errorf("layout changes the fingerprint:\n%s\n%s", base, same)
	}

	for _, other := range []string{
		`assert "a" { condition = count > 4 && min.latency > var.limit }`,
		`assert "a" { condition = count > 3 || min.latency > var.limit }`,
		"assert \"a\" {\ncondition = count > 3 && min.latency > var.limit\nseverity = \"warn\"\n}",
	} {
		if print(other) == base {
			t.Errorf("%s has the fingerprint of another condition", other)
		}
	}
}
