package collect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/apache/arrow/go/v17/arrow/array"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

const plain = `
op = "synthetic"
axis "m" { values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }
axis "dtype" { values = ["fp8", "bfloat16"] }
`

func TestCollectAndReuse(t *testing.T) {
	b := newBench(t, plain)
	c, p := b.prepare("")
	if p.Action != stage.ActionCollect || *p.Cases != (stage.CaseCounts{Planned: 20, Collect: 20, Rows: 20}) {
		t.Errorf("first plan: %+v, %+v", p, p.Cases)
	}
	keyBefore, _ := c.KeyExtra(t.Context(), b.planContext())
	first := b.must("", stage.StatusOK)
	if want := (stage.Counts{Planned: 20, Measured: 20, Rows: 20}); first.Counts != want {
		t.Errorf("counts %+v, want %+v", first.Counts, want)
	}
	names := table.Names(first.Data.Table)
	want := strings.Fields("case_id m dtype framework version device kernel_source latency samples rel_stdev p10 p90 " +
		"used_cuda_graph sm_clock_mhz throttled attempts worker device_uuid started_at")
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(texts(t, first.Data, "planned", "case_id"), texts(t, first.Data, "table", "case_id")); diff != "" {
		t.Errorf("rows are not in the order of the plan: %s", diff)
	}
	if info := first.Data.Info; info.Framework != "CPU" || info.Op != "synthetic" || info.Runtime != "runtime.cpu" ||
		info.Partial != "" || !slices.Equal(info.Params, []string{"m", "dtype"}) {
		t.Errorf("info %+v", info)
	}

	// The next process reuses everything and starts no worker.
	b.reopen()
	c, p = b.prepare("")
	if p.Cases.Reuse != 20 || p.Cases.Collect != 0 || p.Reason != "all 20 cases are measured already" {
		t.Errorf("second plan: %s %+v", p.Reason, p.Cases)
	}
	if keyAfter, _ := c.KeyExtra(t.Context(), b.planContext()); !cmp.Equal(keyBefore, keyAfter) {
		t.Errorf("the key changed by measuring: %s", cmp.Diff(keyBefore, keyAfter))
	}
	second := b.must("", stage.StatusOK)
	if second.Counts.Reused != 20 || b.events.count("worker up") != 0 {
		t.Errorf("counts %+v, %d workers", second.Counts, b.events.count("worker up"))
	}
	if a, b := first.Data.Table, second.Data.Table; !a.Schema().Equal(b.Schema()) || !array.RecordEqual(a, b) {
		t.Errorf("the same cases give another table: %v -> %v", a, b)
	}

	// One more value on an axis: only its cases are new.
	b.reopen()
	b.grid = strings.Replace(plain, "10]", "10, 11]", 1)
	if _, p := b.prepare(""); p.Cases.Reuse != 20 || p.Cases.Collect != 2 || !(p.Cases.Seconds > 0) ||
		!strings.Contains(p.Cases.Basis, "median of 20 earlier cases") {
		t.Errorf("third plan: %s %+v", p.Reason, p.Cases)
	}
	third := b.must("", stage.StatusOK)
	if third.Counts.Measured != 2 || third.Counts.Reused != 20 {
		t.Errorf("counts %+v", third.Counts)
	}
	// Other settings: nothing can be reused, and the plan has the reason.
	_, p = b.prepare(`measure { min_samples = 7 }`)
	if p.Cases.Reuse != 0 || !strings.Contains(p.Reason, "measure.min_samples 3 -> 7") ||
		!strings.Contains(p.Cases.Basis, "under other conditions") {
		t.Errorf("plan with other settings: %s; %s", p.Reason, p.Cases.Basis)
	}
}

func TestSweepPointsAreCases(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "m" { values = [1, 2, 3] }
sweep "s" { values = [16, 32, 64] }
`)
	_, p := b.prepare("")
	if *p.Cases != (stage.CaseCounts{Planned: 3, Collect: 3, Rows: 9}) {
		t.Errorf("plan %+v", p.Cases)
	}
	out := b.must("", stage.StatusOK)
	if out.Counts.Planned != 9 || out.Counts.Rows != 9 || out.Data.Planned.NumRows() != 9 {
		t.Errorf("counts %+v", out.Counts)
	}
	s, err := table.Int64s(out.Data.Table, "s")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Values, []int64{16, 32, 64, 16, 32, 64, 16, 32, 64}) {
		t.Errorf("sweep column %v", s.Values)
	}
	// A longer sweep measures its new points only; an axis is the same to it.
	b.grid = strings.Replace(b.grid, "64]", "64, 128]", 1)
	if _, p := b.prepare(""); p.Cases.Collect != 3 || p.Cases.Rows != 3 {
		t.Errorf("plan of the longer sweep %+v", p.Cases)
	}
	longer := b.must("", stage.StatusOK)
	if longer.Counts.Measured != 3 || longer.Counts.Reused != 9 {
		t.Errorf("counts %+v", longer.Counts)
	}
	b.grid = `
op = "synthetic"
axis "m" { values = [1, 2, 3] }
axis "s" { values = [16, 32, 64, 128] }
`
	axis := b.must("", stage.StatusOK)
	if axis.Counts.Reused != 12 {
		t.Errorf("counts with an axis %+v", axis.Counts)
	}
}

// TestSweepWithoutCases uses a grid whose filter drops all cases of the sweep.
func TestSweepWithoutCases(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "m" { values = [1, 2, 3] }
sweep "s" { values = [16, 32, 64] }
filter "none" {
  keep   = m > 3
  reason = "too small"
}
`)
	out := b.must("", stage.StatusOK)
	if out.Counts.Planned != 0 || out.Data.Planned.NumRows() != 0 || !table.Has(out.Data.Planned, "s") {
		t.Errorf("counts %+v, planned cases %v", out.Counts, out.Data.Planned.Schema())
	}
}

func TestSelection(t *testing.T) {
	b := newBench(t, plain)
	b.opts = stage.Options{Limit: 5}
	out := b.must("", stage.StatusOK)
	if out.Counts.Measured != 5 || out.Counts.Skipped != 15 || out.Data.Info.Partial != "limit" {
		t.Errorf("%+v, partial %q", out.Counts, out.Data.Info.Partial)
	}
	if h := histogram(t, out, "class"); h["not_selected"] != 15 {
		t.Errorf("ledger %v", h)
	}
	if p := b.events.progress; p.Done != 5 || p.Total != 5 || p.Skipped != 0 {
		t.Errorf("what was not asked for counts as progress: %+v", p)
	}
	b.opts = stage.Options{Smoke: true, Seed: 3}
	out = b.must("", stage.StatusOK)
	if n := out.Counts.Measured + out.Counts.Reused; n != smokeCases || out.Data.Info.Partial != "smoke" {
		t.Errorf("%+v", out.Counts)
	}
	c, _ := b.prepare("")
	smoke, _ := c.KeyExtra(t.Context(), b.planContext())
	b.opts = stage.Options{Limit: 1000}
	all, _ := c.KeyExtra(t.Context(), b.planContext())
	if cmp.Equal(smoke, all) || all.(map[string]any)["selection"] != nil {
		t.Errorf("keys %v and %v", smoke, all)
	}
	b.opts = stage.Options{Smoke: true, Seed: 1}
	one := selection(200, b.opts)
	two := selection(200, stage.Options{Smoke: true, Seed: 2})
	selected := 0
	for _, is := range one {
		if is {
			selected++
		}
	}
	if len(one) != 200 || selected != smokeCases || slices.Equal(one, two) || !slices.Equal(one, selection(200, b.opts)) {
		t.Errorf("samples %v and %v", one, two)
	}
}

const faulty = `
op = "synthetic"
axis "n" { values = [1, 2, 3, 4, 5, 6] }
axis "fault" { values = ["none", %s] }
filter "few" {
  keep   = fault == "none" || n <= 2
  reason = "two of each fault"
}
`

func TestFailuresAreKeptAndClassified(t *testing.T) {
	b := newBench(t, fmt.Sprintf(faulty, `"error", "unsupported", "segfault", "nan", "columns", "killed", "garbage"`))
	const config = `
breaker { after = 0 }
rule "known" {
  match = "raised an error"
  class = "collector_bug"
}`
	out := b.must(config, stage.StatusPartial)
	want := map[string]int{"collector_bug": 6, "unsupported_config": 2, "framework_bug": 4, "resource_issue": 2}
	if diff := cmp.Diff(want, histogram(t, out, "class")); diff != "" {
		t.Error(diff)
	}
	types := map[string]int{"NonFiniteLatency": 2, "BadRow": 2, "ProtocolError": 2, "SIGSEGV": 2, "SIGKILL": 2}
	for typ, n := range types {
		if got := histogram(t, out, "type")[typ]; got != n {
			t.Errorf("%d failures of type %s, want %d", got, typ, n)
		}
	}
	if out.Counts.Measured != 6 || out.Counts.Failed != 14 {
		t.Errorf("%+v", out.Counts)
	}
	// An out-of-memory kill is retried on a fresh worker, the others are not.
	attempts, err := table.Int64s(out.Data.Ledger, "attempts")
	if err != nil {
		t.Fatal(err)
	}
	for i, typ := range texts(t, out.Data, "ledger", "type") {
		if want := map[bool]int64{true: 2, false: 1}[typ == "SIGKILL"]; attempts.Values[i] != want {
			t.Errorf("%s was tried %d times, want %d", typ, attempts.Values[i], want)
		}
	}
	for _, params := range texts(t, out.Data, "ledger", "params") {
		if !strings.HasPrefix(params, `{"n":`) {
			t.Errorf("params %s", params)
		}
	}

	// The next apply does not retry them.
	b.reopen()
	_, p := b.prepare(config)
	if p.Cases.Hold != 14 || p.Cases.Collect != 0 || len(p.Notes) != 1 {
		t.Errorf("%+v, notes %v", p.Cases, p.Notes)
	}
	// A better rule changes the ledger without measuring anything.
	again := b.must(strings.Replace(config, `class = "collector_bug"`, `class = "unsupported_config"`, 1),
		stage.StatusPartial)
	if got := histogram(t, again, "class")["unsupported_config"]; got != 4 || b.events.count("worker up") != 0 {
		t.Errorf("%d unsupported, %d workers", got, b.events.count("worker up"))
	}
	// With --retry failed it does.
	b.opts.Retry = "failed"
	if _, p := b.prepare(config); p.Cases.Collect != 14 || p.Cases.Hold != 0 {
		t.Errorf("%+v", p.Cases)
	}
	out = b.must(config, stage.StatusPartial)
	if out.Counts.Failed != 14 || out.Counts.Reused != 6 || b.events.count("worker up") == 0 {
		t.Errorf("%+v", out.Counts)
	}
}

func TestRetries(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "fault" { values = ["transient", "oom"] }
axis "healthy" { values = [2, 3] }
`)
	// One retry is enough for the cases with healthy = 2, two for the others.
	out := b.must("", stage.StatusPartial)
	want := map[string]int{"transient": 1, "resource_issue": 1}
	if diff := cmp.Diff(want, histogram(t, out, "class")); diff != "" || out.Counts.Measured != 2 {
		t.Errorf("%+v %s", out.Counts, diff)
	}
	attempts, err := table.Int64s(out.Data.Table, "attempts")
	if err != nil || !slices.Equal(attempts.Values, []int64{2, 2}) {
		t.Errorf("attempts %v, %v", attempts, err)
	}
	b.opts.Retry = "failed"
	b.must("retry {\n transient = 2\n oom = 2\n}", stage.StatusOK)
}

func TestBreakerTripsAGroup(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "fault" { values = ["none", "error", "unsupported"] }
axis "n" { values = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12] }
`)
	out := b.must("breaker {\n group_by = [\"fault\"]\n after = 3\n}", stage.StatusPartial)
	h := histogram(t, out, "class")
	if h["tripped"] != 18 || out.Counts.Failed != 6 || out.Counts.Measured != 12 {
		t.Errorf("%+v %v", out.Counts, h)
	}
	reason := ""
	for i, class := range texts(t, out.Data, "ledger", "class") {
		if class == "tripped" {
			reason = texts(t, out.Data, "ledger", "message")[i]
		}
	}
	if !strings.Contains(reason, "fault=unsupported failed 3 times from its first case on") {
		t.Errorf("reason %q", reason)
	}
	// Tripped cases are open again in the next run.
	if _, p := b.prepare(""); p.Cases.Collect != 18 || p.Cases.Hold != 6 {
		t.Errorf("%+v", p.Cases)
	}
}

func TestRampStopsTheOp(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "fault" { values = ["none", "error"] }
axis "n" { values = range_ }
`)
	b.grid = strings.Replace(b.grid, "range_", fmt.Sprint(strings.Join(strings.Fields(fmt.Sprint(seq(50))), ", ")), 1)
	out := b.must("ramp = [4, 20, 60]\nbreaker {\n group_by = [\"fault\"]\n after = 100\n}", stage.StatusPartial)
	h := histogram(t, out, "class")
	tried := out.Counts.Measured + out.Counts.Failed
	if tried >= 60 || h["ramp"] != 100-tried || !strings.Contains(out.Message, "all ") ||
		!strings.Contains(out.Message, "fault=error failed") {
		t.Errorf("%+v %v: %s", out.Counts, h, out.Message)
	}
	if out.Data.Info.Partial != "ramp" {
		t.Errorf("partial %q", out.Data.Info.Partial)
	}
}

func seq(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestCollectFailsIfNothingIsMeasured(t *testing.T) {
	b := newBench(t, `
op = "synthetic"
axis "fault" { values = ["error"] }
axis "n" { values = [1, 2, 3, 4, 5, 6, 7, 8] }
`)
	out := b.must("breaker { after = 3 }", stage.StatusFailed)
	if out.Counts.Failed != 3 || out.Counts.Skipped != 5 {
		t.Errorf("%+v", out.Counts)
	}
}

func TestStopStoresCasesInFlight(t *testing.T) {
	// A minute of cases: the first acknowledgements are durable long before the end, even if they are
	// reported late.
	const cases = 3000
	b := newBench(t, fmt.Sprintf("op = \"synthetic\"\naxis \"m\" { values = [%s] }\naxis \"delay_ms\" { values = [20] }",
		strings.Trim(strings.Join(strings.Fields(fmt.Sprint(seq(cases))), ", "), "[]")))
	var once bool
	b.onEvent = func(typ string, f map[string]any) {
		if typ == "progress" && f["done"].(int) >= 3 && !once {
			once = true
			close(b.stop)
		}
	}
	out, err := b.run("")
	if err != nil {
		t.Fatal(err)
	}
	checkInvariant(t, out)
	h := histogram(t, out, "class")
	if out.Status != stage.StatusInterrupted || out.Counts.Measured < 3 || out.Counts.Measured == cases ||
		h["interrupted"] != cases-out.Counts.Measured || out.Data.Info.Partial != "interrupted" {
		t.Errorf("%s %+v %v", out.Status, out.Counts, h)
	}
	b.onEvent = nil
	b.reopen()
	b.opts.Limit = out.Counts.Measured
	if rest := b.must("", stage.StatusOK); rest.Counts.Measured != 0 || rest.Counts.Reused != out.Counts.Measured {
		t.Errorf("%d were acknowledged, now %+v", out.Counts.Measured, rest.Counts)
	}
}

func TestCancelKeepsStoredRows(t *testing.T) {
	b := newBench(t, strings.Replace(plain, "values = [1,", "values = [0, 1,", 1)+`
axis "fault" { values = ["none", "hang"] }
filter "one" {
  keep = fault == "none" || (m == 5 && dtype == "fp8")
  reason = "one case hangs"
}
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acked := 0
	b.onEvent = func(typ string, f map[string]any) {
		if typ == "progress" {
			if acked = f["done"].(int); acked >= 10 {
				cancel()
			}
		}
	}
	if _, err := b.runIn(ctx, ""); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	b.onEvent = nil
	b.reopen()
	if _, p := b.prepare(""); p.Cases.Reuse < 10 {
		t.Errorf("%d cases were acknowledged, %+v", acked, p.Cases)
	}
}

func TestHangs(t *testing.T) {
	// On a busy machine, other cases may also exceed a short deadline.
	for limit := 400 * time.Millisecond; ; limit = min(4*limit, time.Minute) {
		b := newBench(t, fmt.Sprintf(faulty, `"hang"`))
		out := b.must(fmt.Sprintf("deadline {\n floor = %[1]q\n first = %[1]q\n}\nbreaker { after = 0 }", limit),
			stage.StatusPartial)
		h := histogram(t, out, "class")
		if h["timeout"] == 2 && out.Counts.Measured == 6 {
			return
		}
		if h["timeout"] < 2 || limit == time.Minute {
			t.Fatalf("deadline %v: %+v %v", limit, out.Counts, h)
		}
	}
}

func TestMissingRuntimeNeedsEnvironment(t *testing.T) {
	b := newBench(t, strings.ReplaceAll(products, "float32", "float16"))
	b.runtime.Kind, b.runtime.Address = "cuda", "runtime.gpu"
	out, err := b.run("")
	if err != nil || out.Status != stage.StatusNeeds || !strings.Contains(out.Message, "needs runtime.gpu") ||
		!out.NoReuse {
		t.Errorf("%+v, %v", out, err)
	}
	if _, p := b.prepare(""); p.Cases.Collect != 4 || !strings.Contains(p.Reason, "first run with ") {
		t.Errorf("%s %+v", p.Reason, p.Cases)
	}
}

func TestWarmPool(t *testing.T) {
	b := newBench(t, plain)
	b.must("", stage.StatusOK)
	if n := b.events.count("worker up"); n != 1 {
		t.Errorf("%d workers came up", n)
	}
	b.must("measure { passes = 3 }", stage.StatusOK)
	if n := b.events.count("worker up"); n != 0 {
		t.Errorf("%d more workers came up for other settings", n)
	}
}
