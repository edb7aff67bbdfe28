package run

import (
	"strings"
	"testing"

	"aicplan/engine/stage"
)

const told = `
thing "a" { value = 2 }
thing "b" { input = thing.a }
teller "t" {
  input      = thing.a
  depends_on = [thing.b]
}
`

func tellerBench(t *testing.T) *bench {
	b := newBench(t)
	b.kinds["teller"] = stage.Kind{
		Name: "teller", Version: 1, Class: stage.Report,
		New: func() stage.Stage { return &gadget{b: b} },
	}
	b.do["teller.t"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusOK}, nil
	}
	return b
}

// TestFollowerRunsAgain: a stage that reports on others runs when one of them
// ended differently, although the tables that it reads are the same.
func TestFollowerRunsAgain(t *testing.T) {
	b := tellerBench(t)
	check := "pass"
	b.do["thing.b"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusOK, Data: rows(3),
			Checks: []stage.CheckResult{{Name: "c", Result: check}}}, nil
	}
	b.apply(told)
	if got := status(b.apply(told)); got != "thing.a=reused thing.b=reused teller.t=reused" {
		t.Errorf("again: %s", got)
	}
	check = "warn"
	changed := strings.Replace(told, "thing \"b\" { input = thing.a }", "thing \"b\" {\n  input = thing.a\n  value = 9\n}",
		1)
	if got := status(b.apply(changed)); got != "thing.a=reused thing.b=ok teller.t=ok" {
		t.Errorf("after a change beside it: %s", got)
	}
	if got := status(b.apply(changed)); got != "thing.a=reused thing.b=reused teller.t=reused" {
		t.Errorf("settled: %s", got)
	}
}

// TestAlwaysRunsAfterFailures: such a stage sees the data of a gate that failed,
// nothing of a stage that broke, and never what an earlier run left there.
func TestAlwaysRunsAfterFailures(t *testing.T) {
	b := tellerBench(t)
	seen := map[string]int{}
	var finished []stage.Finished
	b.do["teller.t"] = func(rc *stage.RunContext) (*stage.Outcome, error) {
		seen["input"] = -1
		if in := rc.Inputs["input"]; in != nil {
			seen["input"] = int(in.Table.NumRows())
		}
		finished = rc.Upstream()
		return &stage.Outcome{Status: stage.StatusOK}, nil
	}
	b.apply(told)
	if seen["input"] != 2 || len(finished) != 2 || finished[1].After[0] != "thing.a" {
		t.Fatalf("first: %v %+v", seen, finished)
	}

	b.do["thing.a"] = func(*stage.RunContext) (*stage.Outcome, error) {
		return &stage.Outcome{Status: stage.StatusGateFailed, Data: rows(7), NoReuse: true}, nil
	}
	failing := strings.Replace(told, "value = 2", "value = 3", 1)
	r := b.apply(failing)
	if got := status(r); got != "thing.a=gate_failed thing.b=skipped teller.t=ok" {
		t.Fatalf("after a failed gate: %s", got)
	}
	if seen["input"] != 7 || len(finished) != 2 || finished[1].Outcome.Status != stage.StatusSkipped {
		t.Errorf("after a failed gate: %v %+v", seen, finished)
	}
	if r.ExitCode() != ExitGate {
		t.Errorf("exit code %d, want %d", r.ExitCode(), ExitGate)
	}

	b.do["thing.a"] = func(*stage.RunContext) (*stage.Outcome, error) { panic("broken") }
	if got := status(b.apply(failing)); got != "thing.a=failed thing.b=skipped teller.t=ok" || seen["input"] != -1 {
		t.Errorf("after a broken stage: %s, %v", got, seen)
	}
}
