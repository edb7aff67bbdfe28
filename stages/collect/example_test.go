package collect

import (
	"strings"
	"testing"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// TestExampleIsTheMiddleCaseOfItsKind: the example does not depend on the order of cases, has a kernel, and exists for
// each kind.
func TestExampleIsTheMiddleCaseOfItsKind(t *testing.T) {
	t.Parallel()
	const kinds = `
op = "gemm"
axis "gemm_dtype" { values = ["float32", "int8", "fp8"] }
axis "m" { values = [%s] }
axis "n" { values = [8, 16, 64] }
axis "k" { values = [8] }
`
	for _, m := range []string{"1, 2, 40, 7000, 100000", "100000, 2, 7000, 1, 40"} {
		b := newBench(t, strings.Replace(kinds, "%s", m, 1))
		_, p := b.prepare("")
		cases := p.Private.(*Measurement).Cases
		j, err := newJob(cases, rows.SchemaOf(nil, "", true), nil)
		if err != nil {
			t.Fatal(err)
		}
		params := func(task int) string { return string(cases.ParamsJSON(task)) }
		for task := range j.tasks {
			switch p := params(task); {
			case strings.Contains(p, "int8"):
				j.units[j.tasks[task].first].bar = &skip{"unsupported_config", "none of this kind has a kernel"}
			case strings.Contains(p, "fp8") && !strings.Contains(p, `"m":2,`):
				j.units[j.tasks[task].first].bar = &skip{"unsupported_config", "only m of 2 has one"}
			}
		}
		for task, at := range j.examples() {
			got, want := params(int(at)), `{"gemm_dtype":"float32","m":40,"n":16,"k":8}`
			switch p := params(task); {
			case strings.Contains(p, `float32","m":1,`):
				want = `{"gemm_dtype":"float32","m":1,"n":16,"k":8}`
			case strings.Contains(p, `fp8","m":1,`):
				want = p
			case strings.Contains(p, "int8"):
				want = p
			case strings.Contains(p, "fp8"):
				want = `{"gemm_dtype":"fp8","m":2,"n":16,"k":8}`
			}
			if got != want {
				t.Errorf("the example of %s is %s, want %s", params(task), got, want)
			}
		}
	}
}

// TestExampleHasPoints: a case whose sweep has no points cannot run, so it is not the example.
func TestExampleHasPoints(t *testing.T) {
	t.Parallel()
	b := newBench(t, `
op = "synthetic"
axis "m" { values = [1, 2, 3] }
sweep "points" {
  axis "n" { values = [8, 16] }
  filter "few" {
    keep   = m < 2
    reason = "too large"
  }
}
`)
	_, p := b.prepare("")
	j, err := newJob(p.Private.(*Measurement).Cases, rows.SchemaOf(nil, "", true), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := j.examples(); got[0] != 0 {
		t.Errorf("the example is case %d of %d, whose sweep has no points", got[0], len(got))
	}
}

// TestFailedExampleIsNotUsedAgain: the case whose worker died of its example is tried again without it, and other cases
// of its kind run without it.
func TestFailedExampleIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, strings.Replace(plain, "[1,", "[11,", 1)) // 1 is a kind
	c, p := b.prepare("")
	m := p.Private.(*Measurement)
	j, err := newJob(m.Cases, rows.SchemaOf(nil, "", true), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.runtime.Kind = "python"
	r := &running{Config: c, job: j, planned: m, rc: &stage.RunContext{Events: &fakeRecorder{}, Stop: b.stop}}
	s := newSource(r, j.todo(), nil, newKeeper(r))
	task := s.Next()
	if task.Case.Example == nil {
		t.Fatal("no example")
	}
	died := &worker.Failure{Exception: "SIGSEGV", Message: "the worker died"}
	s.end(worker.Outcome{Task: task, Cause: worker.CauseDied, Failure: died, Example: true})
	again := s.Next()
	if again.Case.ID != task.Case.ID || again.Case.Example != nil {
		t.Errorf("case %s and not %s is next, with example %+v", again.Case.ID, task.Case.ID, again.Case.Example)
	}
	without := 0
	for next := s.Next(); next != nil; next = s.Next() {
		if e := next.Case.Example; e == nil {
			without++
		} else if e.ID == task.Case.Example.ID {
			t.Errorf("case %s has the example that failed", next.Case.ID)
		}
	}
	if without != 9 {
		t.Errorf("%d cases without an example", without)
	}
}
