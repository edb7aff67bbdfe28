package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"pgregory.net/rapid"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/collect"
	"aicplan/stages/grids"
	"aicplan/stages/runtimes"
)

// TestMain turns the test binary into a worker where a stage starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv(worker.EnvFDIn) == "" {
		os.Exit(m.Run())
	}
	if err := worker.Serve(context.Background(), runtimes.HostOf(runtimes.Kinds())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type silent struct{ stage.Evaluator }

func (silent) Progress(string, stage.Progress)     {}
func (silent) Message(string, string, string)      {}
func (silent) Emit(string, string, map[string]any) {}

func (silent) Context([]hcl.Expression, map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	return &hcl.EvalContext{}, nil
}

// bench is a grid that was collected.
type bench struct {
	t     *testing.T
	store *checkpoint.Store
	plan  *stage.Plan // of the collect stage
	data  *stage.Dataset
	stop  chan struct{}
}

func parse(t *testing.T, src string) hcl.Body {
	t.Helper()
	f, diags := hclsyntax.ParseConfig([]byte(src), "plan.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	return f.Body
}

func ref(kind, name string) cty.Value {
	return cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RefType,
		&stage.Ref{Address: kind + "." + name, Kind: kind})})
}

func newBench(t *testing.T, grid string) *bench {
	t.Helper()
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "state"), checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}

	pools := runtimes.NewPools(runtimes.Kinds())
	t.Cleanup(func() {
		if err := pools.Close(); err != nil {
			t.Error(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})

	rt := &stage.Runtime{Name: "cpu", Kind: "cpu", Framework: "CPU", Address: "runtime.cpu",
		Options: map[string]cty.Value{"synthetic": cty.True}}
	g := grids.Kind().New().(*grids.Stage)
	if diags := g.DecodeBody(parse(t, grid), silent{}); diags.HasErrors() {
		t.Fatal(diags)
	}

	gp, diags := g.Plan(t.Context(), nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	c := collect.Kind(pools, nil).New().(*collect.Config)
	c.Grid = ref("grid", "g")
	c.Runtime = cty.ObjectVal(map[string]cty.Value{"ref": cty.CapsuleVal(stage.RuntimeType, rt)})
	if diags := c.Check(&stage.CheckContext{}); diags.HasErrors() {
		t.Fatal(diags)
	}

	cp, diags := c.Plan(t.Context(), &stage.PlanContext{Address: "collect.c", Store: store,
		Upstream: func(*stage.Ref) *stage.Plan { return gp }})
	if diags.HasErrors() {
		t.Fatal(diags)
	}

	b := &bench{t: t, store: store, plan: cp, stop: make(chan struct{})}
	rc := b.context(cp)
	out, err := c.Run(t.Context(), rc)
	if err != nil || out.Status != stage.StatusOK {
		t.Fatalf("collect: %v %+v", err, out)
	}

	b.data = out.Data
	return b
}

func (b *bench) context(p *stage.Plan) *stage.RunContext {
	return &stage.RunContext{Address: "x.c", Plan: p, Store: b.store, Events: silent{},
		RunDir: filepath.Join(b.t.TempDir(), "run"), Stop: b.stop}
}

func config(t *testing.T, src string) *Config {
	t.Helper()
	c := Kind().New().(*Config)
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"collect": cty.ObjectVal(map[string]cty.Value{"c": ref("collect", "c")}), "gate": cty.ObjectVal(map[string]cty.Value{"c": ref("gate", "c")})}}
	diags := gohcl.DecodeBody(parse(t, "collect = collect.c\n"+src), ctx, c)
	if diags = append(diags, c.Check(&stage.CheckContext{})...); diags.HasErrors() {
		t.Fatal(diags)
	}
	return c
}

func (b *bench) verify(src string, ds *stage.Dataset) (*stage.Outcome, error) {
	b.t.Helper()
	c := config(b.t, src)
	p, diags := c.Plan(b.t.Context(), &stage.PlanContext{Upstream: func(*stage.Ref) *stage.Plan { return b.plan }})
	if diags.HasErrors() {
		b.t.Fatal(diags)
	}

	rc := b.context(p)
	rc.Inputs = map[string]*stage.Dataset{"input": ds}
	return c.Run(b.t.Context(), rc)
}

func (b *bench) must(src string, ds *stage.Dataset) *stage.Outcome {
	b.t.Helper()
	out, err := b.verify(src, ds)
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// changed is the dataset with other latencies.
func changed(t *testing.T, ds *stage.Dataset, f func(i int, v float64) float64) *stage.Dataset {
	t.Helper()
	col, err := table.Float64s(ds.Table, "latency")
	if err != nil {
		t.Fatal(err)
	}

	lat := slices.Clone(col.Values)
	for i := range lat {
		lat[i] = f(i, lat[i])
	}

	out := *ds
	out.Table = table.WithColumn(ds.Table, "latency", table.Floats(lat, nil))
	return &out
}

const plain = `
op = "synthetic"
axis "m" { values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }
axis "dtype" { values = ["fp8", "bfloat16"] }
`

func TestVerify(t *testing.T) {
	b := newBench(t, plain)
	out := b.must("sample = 12", b.data)
	if out.Status != stage.StatusOK || out.Data != b.data ||
		!out.Values["sampled"].RawEquals(cty.NumberIntVal(12)) || !out.Values["median"].RawEquals(cty.NumberIntVal(1)) {
		t.Errorf("%+v", out)
	}

	if c := out.Checks[0]; c.Result != "pass" || len(c.Rows) != 12 ||
		!strings.Contains(c.Message, "12 rows measured again: the median ratio is 1.0000") {
		t.Errorf("%+v", c)
	}

	slower := changed(t, b.data, func(_ int, v float64) float64 { return v * 1.03 })
	out = b.must("sample = 12", slower)
	if c := out.Checks[0]; out.Status != stage.StatusGateFailed ||
		!strings.Contains(c.Message, "the median is more than 2 % off") || !strings.Contains(c.Rows[0], "(x 0.9709)") {
		t.Errorf("3 %% pass: %+v", c)
	}

	if out = b.must("sample = 12\nseverity = \"warn\"", slower); out.Status != stage.StatusOK ||
		out.Checks[0].Result != "warn" {
		t.Errorf("%+v", out)
	}

	if out = b.must("sample = 12\nmedian = 0.05", slower); out.Status != stage.StatusOK {
		t.Errorf("%+v", out)
	}

	// One row of all is off: the median does not see it, p95 does.
	one := changed(t, b.data, func(i int, v float64) float64 {
		if i == 3 {
			return v / 2
		}
		return v
	})

	out = b.must("sample = 100\np95 = 0.02", one)
	if c := out.Checks[0]; out.Status != stage.StatusOK || !strings.Contains(c.Rows[0], "(x 2.0000)") ||
		!strings.Contains(c.Message, "the worst by 100.00 %") {
		t.Errorf("one of twenty rows is within p95: %+v", c)
	}

	two := changed(t, one, func(i int, v float64) float64 {
		if i == 5 {
			return v / 2
		}
		return v
	})
	if out = b.must("sample = 100\np95 = 0.02", two); out.Status != stage.StatusGateFailed {
		t.Errorf("two of twenty rows are off: %+v", out.Checks[0])
	}
}

func TestSweepsAreMeasuredAtTheirPoints(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "n" { values = [1, 2, 3] }
sweep "m" { values = [1, 2, 4, 8] }
`)

	out := b.must("sample = 5", b.data)
	if c := out.Checks[0]; c.Result != "pass" || !out.Values["sampled"].RawEquals(cty.NumberIntVal(5)) {
		t.Errorf("%+v %+v", out.Values, c)
	}
}

// TestRowsOfOtherCasesAreNoRepeat drops rows whose parameters contradict the case, as a collect does.
func TestRowsOfOtherCasesAreNoRepeat(t *testing.T) {
	b := newBench(t, plain)
	tasks, err := config(t, "").tasksOf(b.plan.Private.(*collect.Measurement), b.data, []int{0})
	if err != nil {
		t.Fatal(err)
	}

	for m, want := range map[json.Number]int{"1": 1, "2": 0} {
		q := queue{rc: b.context(b.plan)}
		q.Done(worker.Outcome{Task: &worker.Task{Data: tasks[0]}, Rows: []worker.Row{{"m": m, "latency": json.Number("1")}}})
		if got := len(q.done[0].rows); got != want {
			t.Errorf("m = %s: %d rows, want %d", m, got, want)
		}
	}
}

func TestOtherPlaceProvesNothing(t *testing.T) {
	b := newBench(t, plain)
	ds := *b.data
	ds.Info.Device = "another CPU"
	out := b.must("", &ds)
	if out.Status != stage.StatusNeeds || !strings.Contains(out.Message, "another CPU") || !out.NoReuse {
		t.Errorf("%+v", out)
	}
}

func TestWhatCannotBeVerified(t *testing.T) {
	b := newBench(t, plain)
	ids := *b.data
	ids.Table = table.WithColumn(b.data.Table, "case_id", table.Constant("gone", int(b.data.Table.NumRows())))
	if _, err := b.verify("", &ids); err == nil ||
		!strings.Contains(err.Error(), "is a case of collect.c as it is planned now") {
		t.Errorf("error %v", err)
	}

	imported := *b.data
	imported.Table = table.Drop(b.data.Table, "case_id")
	if _, err := b.verify("", &imported); err == nil || !strings.Contains(err.Error(), "case_id") {
		t.Errorf("error %v", err)
	}

	if _, err := b.verify("by = [\"dtipe\"]", b.data); err == nil || !strings.Contains(err.Error(), `"dtipe"`) {
		t.Errorf("error %v", err)
	}

	if _, err := b.verify("", &stage.Dataset{}); err == nil {
		t.Error("nothing is verified")
	}

	close(b.stop)

	if out := b.must("", b.data); out.Status != stage.StatusInterrupted {
		t.Errorf("%+v", out)
	}
}

func TestCompareReportsFailuresAndClocks(t *testing.T) {
	ds := &stage.Dataset{Info: stage.Info{Params: []string{"m"}},
		Table: table.NewRecord([]string{"m", "kernel_source", "latency", "sm_clock_mhz", "throttled"}, []arrow.Array{
			table.Ints([]int64{1, 2, 3, 3}, nil), table.Texts([]string{"a", "a", "a", "b"}, nil),
			table.Floats([]float64{1, 1, 1, 1}, nil),
			table.Floats([]float64{1980, 1980, 1400, 1400}, nil), table.Flags([]bool{false, false, true, true}, nil)})}

	num := func(s string) json.Number { return json.Number(s) }
	done := []*repeat{
		{points: []point{{row: 0}}, rows: []worker.Row{{"latency": num("1.5"), "sm_clock_mhz": num("1200"),
			"throttled": true}}},
		{points: []point{{row: 1}}, fail: &worker.Failure{Message: "no kernel"}},
		{points: []point{{row: 2, kernel: "a"}, {row: 3, kernel: "b"}},
			rows: []worker.Row{{"latency": num("1.1"), "kernel_source": "b"}, {"latency": num("1.2"), "kernel_source": "a"}}},
	}

	res, err := compare(ds, done)
	if err != nil {
		t.Fatal(err)
	}

	want := []string{
		"m=2 failed this time: no kernel",
		"m=1: 1 -> 1.5 ms (x 1.5000) at 1980 -> 1200 MHz (throttled again)",
		"m=3: 1 -> 1.2 ms (x 1.2000) at 1400 -> ? MHz (throttled before)",
		"m=3: 1 -> 1.1 ms (x 1.1000) at 1400 -> ? MHz (throttled before)",
	}
	if !slices.Equal(res.lines, want) {
		t.Errorf("lines %q", res.lines)
	}

	out := config(t, "").outcome(ds, res)
	if out.Status != stage.StatusGateFailed ||
		!strings.Contains(out.Checks[0].Message, "1 rows failed this time") {
		t.Errorf("%+v", out.Checks[0])
	}

	if res, err = compare(ds, nil); err != nil {
		t.Fatal(err)
	}

	out = config(t, "").outcome(ds, res)
	if out.Status != stage.StatusGateFailed || !out.Values["median"].IsNull() {
		t.Errorf("nothing measured passes: %+v", out.Checks[0])
	}
}

// TestNothingMeasuredAgain prints no figures if no row has a value the second time.
func TestNothingMeasuredAgain(t *testing.T) {
	c := &Config{Median: 0.02, P95: 0.1, Severity: "fail"}
	check, status := c.judge(facts{failed: 3, median: math.NaN(), p95: math.NaN(), worst: math.NaN()})
	if want := "no row could be measured again; 3 rows failed this time"; check.Message != want ||
		check.Value != "" || status != stage.StatusGateFailed {
		t.Errorf("%s %q: %q, want %q", status, check.Value, check.Message, want)
	}
}

// TestUnknownDeviationFails judges a record whose median and deviation were infinite, and are null therefore.
func TestUnknownDeviationFails(t *testing.T) {
	c := &Config{Median: 0.02, P95: 0.1, Severity: "fail"}
	for _, f := range []facts{{sampled: 3, median: 1, p95: math.NaN()}, {sampled: 3, median: math.NaN()}} {
		if check, status := c.judge(f); status != stage.StatusGateFailed {
			t.Errorf("%+v: %s %q", f, status, check.Message)
		}
	}
}

// The draw is spread over words and sizes, does not see the order of the rows
// and follows the seed.
func TestSample(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(rt, "n")
		want := rapid.IntRange(1, 30).Draw(rt, "sample")

		ids, dtype, lat := make([]string, n), make([]string, n), make([]float64, n)
		for i := range n {
			ids[i], dtype[i], lat[i] = fmt.Sprintf("c%03d", i), fmt.Sprintf("d%d", i%3), float64(i*i%17+1)
		}

		names := []string{"case_id", "dtype", "latency"}
		rec := table.NewRecord(names, []arrow.Array{table.Texts(ids, nil), table.Texts(dtype, nil), table.Floats(lat, nil)})
		perm := rapid.Permutation(slices.Collect(func(yield func(int) bool) {
			for i := range n {
				if !yield(i) {
					return
				}
			}
		})).Draw(rt, "perm")

		c := &Config{Sample: want, Seed: rapid.IntRange(0, 5).Draw(rt, "seed")}
		draw := func(rec arrow.Record) []string {
			rows, err := c.sample(&stage.Dataset{Table: rec, Info: stage.Info{Params: []string{"dtype"}}})
			if err != nil {
				rt.Fatal(err)
			}

			col, _ := table.Strings(rec, "case_id")
			var out []string
			for _, r := range rows {
				out = append(out, col.Values[r])
			}

			slices.Sort(out)
			return out
		}

		got := draw(rec)
		if len(got) != min(want, n) || len(slices.Compact(slices.Clone(got))) != len(got) {
			rt.Fatalf("drew %v of %d rows, want %d different ones", got, n, want)
		}

		if again := draw(table.Take(rec, perm)); !slices.Equal(got, again) {
			rt.Fatalf("the order of the rows changes the draw: %v and %v", got, again)
		}

		if want >= 3 && n >= 3 {
			seen := map[string]bool{}
			for _, id := range got {
				var i int
				fmt.Sscanf(id, "c%d", &i)
				seen[dtype[i]] = true
			}

			if len(seen) != 3 {
				rt.Fatalf("only %v are in the sample", seen)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	c := &Config{Collect: ref("grid", "g"), Input: cty.StringVal("x"), Sample: 0, Median: -1, Severity: "error"}
	if diags := c.Check(&stage.CheckContext{}); len(diags) != 5 {
		t.Errorf("%d problems, want 5: %v", len(diags), diags)
	}

	d := config(t, "input = gate.c")
	if in := d.Inputs(); len(in) != 2 || in[0].Ref.Address != "gate.c" || in[1].Ref.Address != "collect.c" {
		t.Errorf("%+v", in)
	}

	if in := config(t, "").Inputs(); len(in) != 1 || in[0].Ref.Address != "collect.c" {
		t.Errorf("%+v", in)
	}
}
