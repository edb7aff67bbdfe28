package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"aicplan/engine/plan"
	"aicplan/engine/stage"
)

// TestApprove checks that a long plan is shown with a question, and that only yes continues.
func TestApprove(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer  string
		seconds float64
		asks    bool
		want    error
	}{
		{"yes\n", 3600, true, nil},
		{"y\n", 3600, true, errDeclined},
		{"", 3600, true, errDeclined},
		{"", 60, false, nil},
	} {
		var out strings.Builder
		a := &app{stdin: strings.NewReader(c.answer), stdout: &out}
		err := a.approve(plan.Summary{Totals: plan.Totals{Stages: 1, Collect: 10, Seconds: c.seconds, Estimated: 10},
			Work: true}, 10*time.Minute)
		if !errors.Is(err, c.want) {
			t.Errorf("%q: %v, not %v", c.answer, err, c.want)
		}
		if asked := strings.Contains(out.String(), "estimated to take 1h00m. Go on?"); asked != c.asks {
			t.Errorf("%q after %v s: %q", c.answer, c.seconds, out.String())
		}
	}
}

// TestEveryVerbHasAnExample checks that every command has an example.
func TestEveryVerbHasAnExample(t *testing.T) {
	t.Parallel()
	for _, n := range leaves(t) {
		if verb := verbOf(n); examples()[verb] == "" {
			t.Errorf("aicplan %s --help has no example", verb)
		}
	}
}

// TestPlanHidesNothing checks that a plan contains every word at any width, and that lines are not
// longer than the width unless a word is.
func TestPlanHidesNothing(t *testing.T) {
	t.Parallel()
	reason := "measured before under other conditions: measure.min_samples 3 -> 5; and a cause that is told at length, " +
		"to its very end"
	sum := plan.Summary{Work: true, Stages: []plan.StageSummary{
		{Address: "collect.gemm", Kind: "collect", Measures: true, Action: stage.ActionStale, Reason: reason,
			Cases: &stage.CaseCounts{Planned: 120, Collect: 20, Reuse: 100, Rows: 20, Seconds: 10}},
		{Address: `module.pipeline["base"].collect.op["attention_context_of_a_long_name"]`, Kind: "collect", Measures: true,
			Action: stage.ActionCollect, Cases: &stage.CaseCounts{Planned: 5, Collect: 5, Rows: 5}},
	}}
	for width, name := range map[int]string{40: "40", 80: "80", 200: "200", 0: "a pipe"} {
		var out strings.Builder
		a := &app{stdout: &out}
		if width > 0 {
			a.environ = []string{"COLUMNS=" + name}
		}
		copied := sum
		copied.Stages = append([]plan.StageSummary(nil), sum.Stages...)
		a.viewSummary(copied, false)
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{reason, "20 to collect, 100 reused, about 10s",
			`collect.op["attention_context_of_a_long_name"] 5 to collect`} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, out.String())
			}
		}
		wide := width
		if wide == 0 {
			wide = 80
		}
		for line := range strings.Lines(out.String()) {
			if strings.HasPrefix(line, "Plan") || strings.Contains(line, "attention") {
				continue
			}
			if n := len(strings.TrimRight(line, "\n")); n > wide {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}
