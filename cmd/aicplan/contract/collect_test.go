package contract

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// faultsOp fails as its parameter kind requests. It writes a line to "calls" for
// each attempt.
const faultsOp = `
import os
import signal


def op(i, kind, bench):
    here = os.environ["HERE"]
    with open(os.path.join(here, "calls"), "a") as f:
        f.write("%s-%d\n" % (kind, i))
    with open(os.path.join(here, "calls")) as f:
        attempt = f.read().split().count("%s-%d" % (kind, i))
    repaired = os.path.exists(os.path.join(here, "repaired"))
    if kind == "raises" and not repaired:
        raise RuntimeError("tile 7 of 3, none is left")
    if kind == "memory" or kind == "memory_once" and attempt == 1:
        raise RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")
    if kind == "busy_once" and attempt == 1:
        raise OSError("[Errno 98] Address already in use")
    if kind == "typo":
        raise NameError("name 'tokns' is not defined")
    if kind == "unsupported":
        bench.unsupported("no such kernel before SM 100")
    if kind == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "hangs":
        while True:
            signal.pause()
    if kind == "no_latency":
        return {"time": 1.0}
    if kind == "nan":
        return {"latency": float("nan")}
    if kind == "waits":
        while not os.path.exists(os.path.join(here, "go")):
            signal.sigtimedwait([signal.SIGUSR1], 0.01)
    return {"latency": 1.0 + i, "kernel_source": "none"}
`

const faultsPlan = `
variable "kinds" {
  type    = list(string)
  default = ["fine"]
}
variable "coverage" { default = 0.0 }
variable "deadline" { default = "3s" }
variable "rule" { default = "^never$" }
variable "after" { default = 0 }
variable "ramp" {
  type    = list(number)
  default = []
}
variable "free" { default = 0 }
runtime "py" {
  kind      = "python"
  framework = "python"
  path      = ["ops.py"]
  workers   = 1
}
preflight "node" {
  check "disk" { min_gb = var.free }
}
grid "g" {
  op      = "op"
  columns = ["i", "kind"]
  rows "case" {
    values = [for i, kind in var.kinds : { i = i, kind = kind }]
  }
}
collect "g" {
  grid       = grid.g
  runtime    = runtime.py
  depends_on = [preflight.node]
  ramp       = var.ramp
  breaker {
    group_by = ["kind"]
    after    = var.after
  }
  deadline {
    first = var.deadline
    floor = var.deadline
  }
  rule "tiles" {
    match = var.rule
    class = "unsupported_config"
  }
}
gate "g" {
  input = collect.g
  check "coverage" { min = var.coverage }
  check "rows" { condition = latency > 0 }
}
export "g" {
  input = gate.g
  file  = "g_perf.txt"
}
`

// newFaults is a folder with faultsPlan.
func newFaults(t *testing.T) *folder {
	t.Helper()
	f := newSteps(t)
	f.write("ops.py", faultsOp)
	f.write("plan.hcl", faultsPlan)
	f.env = append(f.env, "HERE="+f.dir)
	return f
}

const zeroOp = `
def span(value, bench):
    return {"latency": float(value), "kernel_source": "none"}


def compute_scale(m, k, quant_dtype, bench):
    return {"latency": 0.0 if m == 1 else 0.5, "kernel_source": "none"}
`

const zeroPlan = `
variable "values" { type = list(string) }
table "span_perf" {
  family = "span"
  ops    = ["span"]
  key    = ["value"]
  column "value" { type = "string" }
  metric "latency" {
    unit = "ms"
    %s
  }
}
runtime "py" {
  kind      = "python"
  framework = "vllm"
  path      = ["ops.py"]
}
grid "span" {
  op = "span"
  axis "value" { values = var.values }
}
collect "span" {
  grid    = grid.span
  runtime = runtime.py
}
grid "scale" {
  op = "compute_scale"
  axis "m" { values = [1, 2] }
  axis "k" { values = [16] }
  axis "quant_dtype" { values = ["fp8"] }
}
collect "scale" {
  grid    = grid.scale
  runtime = runtime.py
}
export "span" {
  input   = collect.span
  layout  = "families"
  system  = "h200_sxm"
  backend = "vllm"
  version = "0.24.0"
}
`

// TestZeroIsNoLatency checks that a case fails if its latency is zero or negative, unless zero is a value of the table.
func TestZeroIsNoLatency(t *testing.T) {
	t.Parallel()
	const values = `values=["1", "0", "-0.0", "1e-999", "-1"]`
	plan := func(zero string) *folder {
		f := newSteps(t)
		f.write("ops.py", zeroOp)
		f.write("plan.hcl", fmt.Sprintf(zeroPlan, zero))
		return f
	}

	f := plan("")
	a := f.apply(3, "--var", values, "plan.hcl")
	expectEqual(t, "counts", a.stages["collect.span"].Counts, counts{Planned: 5, Measured: 1, Failed: 4, Rows: 1})
	for _, row := range rows(t, f.expect(0, "show", "--json", "--ledger", "collect.span").stdout) {
		message, _ := row["message"].(string)
		if row["class"] != "collector_bug" || !strings.Contains(message, "correct the op's timer") ||
			strings.Contains(message, "zero = true") == strings.Contains(message, "negative") {
			t.Errorf("%v: %v", row["class"], message)
		}
	}

	// Zero is a value of the catalog's table for compute_scale.
	expectEqual(t, "counts", a.stages["collect.scale"].Counts, counts{Planned: 2, Measured: 2, Rows: 2})

	f = plan("zero = true")
	a = f.apply(3, "--var", values, "plan.hcl")
	expectEqual(t, "counts", a.stages["collect.span"].Counts, counts{Planned: 5, Measured: 4, Failed: 1, Rows: 4})
	if schema := f.read("out/data/h200_sxm/span/vllm/0.24.0/span_perf.schema.json"); !strings.Contains(string(schema),
		`"zero": true`) {
		t.Errorf("the schema does not have zero: %s", schema)
	}
}

// kinds is the flag for a list of the variable kinds.
func kinds(names ...string) string {
	quoted, err := json.Marshal(names)
	if err != nil {
		panic(err)
	}
	return "kinds=" + string(quoted)
}

// ledger counts the cases without a row by status, class and kind.
func (f *folder) ledger(address string) map[string]int {
	f.t.Helper()
	out := map[string]int{}
	for _, row := range rows(f.t, f.expect(0, "show", "--json", "--ledger", address).stdout) {
		var params struct{ Kind string }
		text, _ := row["params"].(string)
		if err := json.Unmarshal([]byte(text), &params); err != nil {
			f.t.Fatalf("%v: %q", err, text)
		}
		if row["message"] == "" {
			f.t.Errorf("a case of the ledger has no message: %v", row)
		}
		out[fmt.Sprintf("%s %s %s", row["status"], row["class"], params.Kind)]++
	}
	return out
}

func expectEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		t.Errorf("%s: %s, want %s", what, g, w)
	}
}

// TestFailuresHaveClasses measures cases that fail in all ways. Each costs only
// itself, has a class in the ledger, and is tried as often as its class allows.
func TestFailuresHaveClasses(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	all := kinds("fine", "memory_once", "memory", "busy_once", "raises", "hangs", "fine", "segfault", "typo",
		"unsupported", "no_latency", "nan", "fine")
	a := f.apply(3, "--var", all, "plan.hcl")
	expectEqual(t, "counts", a.stages["collect.g"].Counts, counts{Planned: 13, Measured: 5, Failed: 8, Rows: 5})
	expectEqual(t, "ledger", f.ledger("collect.g"), map[string]int{
		"failed resource_issue memory": 1, "failed framework_bug raises": 1, "failed timeout hangs": 1,
		"failed framework_bug segfault": 1,
		"failed collector_bug typo":     1, "failed unsupported_config unsupported": 1, "failed collector_bug no_latency": 1,
		"failed framework_bug nan": 1,
	})
	tries := map[string]int{}
	for _, c := range f.calls() {
		kind, _, _ := strings.Cut(c, "-")
		tries[kind]++
	}
	expectEqual(t, "attempts", tries, map[string]int{
		"fine": 3, "memory_once": 2, "memory": 2, "busy_once": 2, "raises": 1, "hangs": 1, "segfault": 1, "typo": 1,
		"unsupported": 1, "no_latency": 1, "nan": 1,
	})
	for _, row := range rows(t, f.expect(0, "show", "--json", "collect.g").stdout) {
		want := 1.0
		if row["kind"] == "memory_once" || row["kind"] == "busy_once" {
			want = 2
		}
		if row["attempts"] != want {
			t.Errorf("%v: %v attempts, want %v", row["kind"], row["attempts"], want)
		}
	}
	if n := bytes.Count(f.read("out/g_perf.txt"), []byte("\n")); n != 6 {
		t.Errorf("%d lines are exported, want 6", n)
	}
	var groups []struct {
		Count  int
		Values []string
	}
	f.json(&groups, 0, "failures", "--json", "--group-by", "class")
	byClass := map[string]int{}
	for _, g := range groups {
		byClass[g.Values[0]] = g.Count
	}
	expectEqual(t, "failures", byClass, map[string]int{"collector_bug": 2, "framework_bug": 3, "resource_issue": 1,
		"timeout": 1, "unsupported_config": 1})

	// What failed is not tried again unasked, a rule gives it another class without
	// a try, and --retry tries it.
	before := len(f.calls())
	f.apply(3, "--var", all, "plan.hcl")
	f.apply(3, "--var", all, "--var", "rule=tile [0-9]+ of", "plan.hcl")
	if n := len(f.calls()); n != before {
		t.Errorf("%d failed cases were tried again unasked", n-before)
	}
	if n := f.ledger("collect.g")["failed unsupported_config raises"]; n != 1 {
		t.Errorf("the rule gave its class to %d cases", n)
	}
}

// TestRetryAfterRepair: --retry failed tries what failed, and only that.
func TestRetryAfterRepair(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	some := kinds("fine", "raises", "fine")
	f.apply(3, "--var", some, "plan.hcl")
	f.write("repaired", "")
	f.apply(3, "--var", some, "plan.hcl")
	a := f.apply(0, "--var", some, "--retry", "failed", "plan.hcl")
	expectEqual(t, "counts", a.stages["collect.g"].Counts, counts{Planned: 3, Measured: 1, Reused: 2, Rows: 3})
	expectEqual(t, "calls", f.calls(), []string{"fine-0", "raises-1", "fine-2", "raises-1"})
}

// TestBreakerAndRamp stop groups and ops that fail from their first case on.
func TestBreakerAndRamp(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	mixed := kinds(slices.Concat(slices.Repeat([]string{"raises"}, 10), slices.Repeat([]string{"fine"}, 10))...)
	f.apply(3, "--var", mixed, "--var", "after=3", "plan.hcl")
	expectEqual(t, "breaker", f.ledger("collect.g"), map[string]int{"failed framework_bug raises": 3,
		"skipped tripped raises": 7})
	if n := len(f.calls()); n != 13 {
		t.Errorf("%d cases were tried, want 13", n)
	}
	f.write("repaired", "")
	a := f.apply(0, "--var", mixed, "--var", "after=3", "--retry", "tripped", "plan.hcl")
	if c := a.stages["collect.g"].Counts; c.Measured+c.Reused != 20 || c.Failed+c.Skipped != 0 {
		t.Errorf("after a repair: %+v", c)
	}
	if n := len(f.calls()); n != 23 {
		t.Errorf("%d cases were tried in both runs, want 23", n)
	}

	r := newFaults(t)
	bad := kinds(slices.Repeat([]string{"raises"}, 20)...)
	r.apply(1, "--var", bad, "--var", "ramp=[4]", "plan.hcl")
	expectEqual(t, "ramp", r.ledger("collect.g"), map[string]int{"failed framework_bug raises": 4,
		"skipped ramp raises": 16})
	if n := len(r.calls()); n != 4 {
		t.Errorf("%d cases were tried, want 4", n)
	}
}

// TestGates: a gate that fails keeps exports from being written, and is in the
// files of results.
func TestGates(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	some := kinds("fine", "raises", "fine", "fine")
	flags := []string{"--var", some, "--var", "coverage=0.9", "--junit", "junit.xml", "--results", "results.json",
		"--summary", "gates.md", "plan.hcl"}
	a := f.apply(4, flags...)
	if s := a.stages["gate.g"].Status; s != "gate_failed" {
		t.Errorf("the gate's status is %q", s)
	}
	if s := a.stages["export.g"].Status; s != "skipped" {
		t.Errorf("the export's status is %q", s)
	}
	if n := len(f.files(".")); f.has("out/g_perf.txt") || n == 0 {
		t.Error("a failed gate did not stop the export")
	}
	type suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string    `xml:"name,attr"`
				File    string    `xml:"file,attr"`
				Failure *struct{} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	var junit suites
	if err := xml.Unmarshal(f.read("junit.xml"), &junit); err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for _, s := range junit.Suites {
		for _, c := range s.Cases {
			failed[s.Name+" "+c.Name] = c.Failure != nil
		}
	}
	if junit.Failures != 1 || !failed["gate.g coverage"] || failed["gate.g latency > 0"] {
		t.Errorf("JUnit has %d failures: %v", junit.Failures, failed)
	}
	var results struct {
		Counts struct{ Passed, Failed int }
		Gates  []struct {
			Address, Status string
			Checks          []struct {
				Name, Severity, Result string
				Judged, Total          int
			}
		}
	}
	if err := json.Unmarshal(f.read("results.json"), &results); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, g := range results.Gates {
		for _, c := range g.Checks {
			found = append(found, fmt.Sprint(g.Address, " ", c.Name, " ", c.Severity, " ", c.Result, " ", c.Judged, "/",
				c.Total))
		}
	}
	slices.Sort(found)
	expectEqual(t, "checks", found[:2], []string{"gate.g coverage fail fail 4/4", "gate.g latency > 0 fail pass 3/3"})
	if !strings.Contains(string(f.read("gates.md")), "coverage") {
		t.Error("the summary lacks the check")
	}

	// With a limit that holds, the same rows pass, and nothing is measured again.
	flags[3] = "coverage=0.7"
	before := len(f.calls())
	f.apply(3, flags...)
	if !f.has("out/g_perf.txt") || len(f.calls()) != before {
		t.Error("another limit needs no measuring, and exports")
	}

	// A preflight that fails stops the run before anything is measured.
	g := newFaults(t)
	g.apply(5, "--var", "free=100000000", "plan.hcl")
	if n := len(g.calls()); n != 0 {
		t.Errorf("%d cases were measured after a failed preflight", n)
	}
}

// TestPartialRuns: a limited run is not exported as if it were whole.
func TestPartialRuns(t *testing.T) {
	t.Parallel()
	f := newSteps(t)
	f.apply(0, "--limit", "3", "plan.hcl")
	if n := len(f.calls()); n != 3 {
		t.Errorf("--limit 3 measured %d cases", n)
	}
	if f.has("out/s_perf.txt") {
		t.Error("a limited run was exported")
	}
	f.resume(3)
}

// TestStateInUse: a second apply on a state folder ends with its exit code.
func TestStateInUse(t *testing.T) {
	t.Parallel()
	f := newFaults(t)
	f.write("held.hcl", faultsPlan)
	first := f.command(t.Context(), "apply", "--var", kinds("waits"), "--var", "deadline=10m", "held.hcl")
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the first run measures", func() bool { return len(f.calls()) > 0 })
	if r := f.run("apply", "--lock-timeout", "10ms", "plan.hcl"); r.code != 11 {
		t.Errorf("exit code %d, want 11: %s", r.code, short(r.stderr))
	}
	f.write("go", "")
	if err := first.Wait(); err != nil {
		t.Errorf("the first run: %v", err)
	}
}

const growPlan = `
variable "n" { default = 3 }
variable "after" { default = 5 }
runtime "py" {
  kind      = "python"
  framework = "python"
  path      = ["ops.py"]
}
grid "s" {
  op = "steps"
  axis "a" { values = range(var.n) }
  axis "b" { values = range(2) }
}
collect "s" {
  grid    = grid.s
  runtime = runtime.py
  breaker { after = var.after }
}
gate "s" {
  input = collect.s
  check "coverage" { min = 1 }
}
export "s" {
  input = gate.s
  file  = "s_perf.txt"
}
`

// TestUnchangedCasesAreReused: plan lists what a change makes stale, and apply
// measures that and nothing else.
func TestUnchangedCasesAreReused(t *testing.T) {
	t.Parallel()
	f := newSteps(t)
	f.write("plan.hcl", growPlan)
	calls := 0
	check := func(what, action string, reuse, collect int64, flags ...string) {
		t.Helper()
		args := append(flags, "plan.hcl")
		var p planned
		code := 2
		if action == "reuse" {
			code = 0
		}
		f.json(&p, code, append([]string{"plan", "--json", "--detailed-exitcode"}, args...)...)
		for _, s := range p.Stages {
			if s.Address != "collect.s" {
				continue
			}
			if s.Action != action || s.Reason == "" {
				t.Errorf("%s: action %s, want %s; reason %q", what, s.Action, action, s.Reason)
			}
			if s.Cases != nil && (s.Cases.Reuse != reuse || s.Cases.Collect != collect) {
				t.Errorf("%s: the plan reuses %d and collects %d, want %d, %d", what, s.Cases.Reuse, s.Cases.Collect, reuse,
					collect)
			}
		}
		a := f.apply(0, args...)
		if n := int64(len(f.calls()) - calls); n != collect {
			t.Errorf("%s: %d cases were measured, want %d", what, n, collect)
		}
		calls = len(f.calls())
		if s, ok := a.stages["collect.s"]; ok && !s.Reused && s.Counts.Rows != reuse+collect {
			t.Errorf("%s: %d rows, want %d", what, s.Counts.Rows, reuse+collect)
		}
		if n := bytes.Count(f.read("out/s_perf.txt"), []byte("\n")); int64(n) != reuse+collect+1 {
			t.Errorf("%s: %d lines are exported, want %d", what, n, reuse+collect+1)
		}
	}
	check("first", "collect", 0, 6)
	check("again", "reuse", 6, 0)
	check("a longer axis", "stale", 6, 2, "--var", "n=4")
	check("a shorter axis", "stale", 4, 0, "--var", "n=2")
	check("how cases are tried", "reuse", 4, 0, "--var", "n=2", "--var", "after=7")
	f.write("ops.py", strings.Replace(stepsOp, "1.0 +", "2.0 +", 1))
	check("another op", "stale", 0, 4, "--var", "n=2")
	f.write("ops.py", stepsOp)
	check("the first op again", "stale", 4, 0, "--var", "n=2")
	check("asked for", "stale", 0, 4, "--var", "n=2", "--replace", "collect.s")

	f.expect(0, "ckpt", "verify")
	f.expect(0, "ckpt", "gc")
	check("after gc", "reuse", 4, 0, "--var", "n=2")
}

// TestSavedPlans: a saved plan runs what was planned, or refuses when that has
// changed.
func TestSavedPlans(t *testing.T) {
	t.Parallel()
	f := newSteps(t)
	f.write("plan.hcl", growPlan)
	f.expect(0, "plan", "--out", "p.plan", "--var", "n=2", "plan.hcl")
	f.apply(0, "p.plan")
	if n := len(f.calls()); n != 4 {
		t.Errorf("the saved plan measured %d cases, want 4", n)
	}
	f.expect(0, "plan", "--out", "q.plan", "--var", "n=3", "plan.hcl")
	f.write("plan.hcl", strings.Replace(growPlan, "range(2)", "range(3)", 1))
	f.expect(1, "apply", "q.plan")
	if n := len(f.calls()); n != 4 {
		t.Errorf("a plan that is out of date measured %d cases", n-4)
	}
	var saved struct {
		Summary planned
	}
	f.json(&saved, 0, "show", "--json", "q.plan")
	if a := saved.Summary.action("collect.s"); a != "stale" {
		t.Errorf("the saved plan has the action %q", a)
	}

	// A plan that reuses all cases does not measure them with other code.
	f.write("plan.hcl", growPlan)
	f.expect(0, "plan", "--out", "r.plan", "--var", "n=2", "plan.hcl")
	f.write("ops.py", strings.Replace(stepsOp, "1.0 +", "2.0 +", 1))
	want := "collect.s has 4 cases to collect instead of 0 (measured before under other conditions: the code of ops.py"
	if out := f.expect(1, "apply", "r.plan"); !strings.Contains(string(out.stderr), want) {
		t.Errorf("the error is %q, want %q", out.stderr, want)
	}
	if n := len(f.calls()); n != 4 {
		t.Errorf("a plan with nothing to collect measured %d cases", n-4)
	}
}

// TestVerify measures a sample again.
func TestVerify(t *testing.T) {
	t.Parallel()
	f := newSteps(t)
	f.write("plan.hcl", growPlan+`
verify "s" {
  collect = collect.s
  sample  = 4
  p95     = 0.05
}
`)
	a := f.apply(0, "plan.hcl")
	if s := a.stages["verify.s"]; s.Status != "ok" {
		t.Errorf("verify: %+v", s)
	}
	if n := len(f.calls()); n != 10 {
		t.Errorf("%d calls, want 6 and 4 again", n)
	}
}
