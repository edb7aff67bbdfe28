package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

// plan is a schedule of cases 0 to n-1, which belong to groups by turns.
type plan struct {
	*Schedule
	skipped []int
	notes   []string
}

func newPlan(l Limits, n int, groups ...string) *plan {
	p := &plan{}
	c := Cases{Groups: groups, Group: func(no int) int { return no % len(groups) }, Past: make([]Past, len(groups)),
		Skip: func(no int, class, _ string) { p.skipped = append(p.skipped, no) },
		Note: func(level, format string, args ...any) {
			p.notes = append(p.notes, level+": "+fmt.Sprintf(format, args...))
		}}
	for no := range n {
		c.Order = append(c.Order, no)
	}
	p.Schedule = NewSchedule(&l, c, 1)
	return p
}

// run ends all cases, those for which fails returns true as failures, and returns them in the order of their end.
func (p *plan) run(fails func(no int) bool) (tried []int) {
	for p.Pending() > 0 {
		no := p.Next()
		tried = append(tried, no)
		if fails(no) {
			p.End(no, "no kernel", false)
			continue
		}
		p.Measured(no, 1)
		p.End(no, "", false)
	}
	return tried
}

func TestScheduleTripsGroupThatNeverWorked(t *testing.T) {
	t.Parallel()
	p := newPlan(Limits{TripAfter: 3}, 40, "dtype=fp8", "dtype=bf16")
	tried := p.run(func(no int) bool { return no%2 == 0 })
	if len(tried) != 20+3 || len(p.skipped) != 17 {
		t.Errorf("%d cases were tried and %d skipped", len(tried), len(p.skipped))
	}
	if want := "error: breaker: dtype=fp8 failed 3 times from its first case on; the last time: no kernel"; !slices.Equal(p.notes, []string{want}) {
		t.Errorf("notes %q", p.notes)
	}
}

func TestScheduleHandsOutNoMoreThanMayFail(t *testing.T) {
	t.Parallel()
	p := newPlan(Limits{TripAfter: 3}, 10, "")
	if n := p.Pending(); n != 3 {
		t.Errorf("%d cases are pending, want the 3 that the breaker allows", n)
	}
	var out []int
	for p.Pending() > 0 {
		out = append(out, p.Next())
	}
	if len(out) != 3 {
		t.Fatalf("%d cases of a group that was never measured are out", len(out))
	}

	p.Measured(out[0], 1)
	p.End(out[0], "", false)
	if n := p.Pending(); n != 7 {
		t.Errorf("%d cases are pending after one was measured, want 7", n)
	}
	if next := p.Next(); next != 3 {
		t.Errorf("case %d comes first among those that waited", next)
	}
}

func TestScheduleStopsRampIfSampleFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails func(no int) bool
		tried int
		want  string
	}{
		"all pass": {func(int) bool { return false }, 100, ""},
		"most fail": {func(no int) bool { return no >= 4 }, 3,
			"rung 1 of 3 did not pass: 3 of 3 cases failed, more than the 50 % that are allowed"},
		"a group fails": {func(no int) bool { return no%4 == 1 }, 20, "rung 2 of 3 did not pass: all "},
	} {
		p := newPlan(Limits{Ramp: []int{4, 20}}, 100, "a", "b", "c", "d")
		tried := p.run(c.fails)
		if len(tried) != c.tried || !strings.HasPrefix(p.Stopped, c.want) || (p.Stopped == "") != (c.want == "") {
			t.Errorf("%s: %d cases were tried; %s", name, len(tried), p.Stopped)
		}
		if len(p.skipped) != 100-len(tried) {
			t.Errorf("%s: %d cases were skipped", name, len(p.skipped))
		}
	}
}

func TestDeadlineFollowsLongestCase(t *testing.T) {
	t.Parallel()
	l := Defaults()
	d := Deadlines{limits: &l}
	for _, want := range []worker.Duration{l.First, l.First, l.First, l.First, l.First} {
		if got := worker.Duration(d.Next()); got != want {
			t.Errorf("deadline %v, want %v", got, want)
		}
		d.Add(1)
	}
	if got := worker.Duration(d.Next()); got != l.Floor {
		t.Errorf("deadline after five short cases is %v, want %v", got, l.Floor)
	}
	if d.Add(60); d.Next() != 10*time.Minute {
		t.Errorf("deadline after a case of a minute is %v", d.Next())
	}
	if l.Factor = 1e12; d.Next() != mostDeadline {
		t.Errorf("deadline with a factor of 1e12 is %v", d.Next())
	}
}

func TestRetryDependsOnCause(t *testing.T) {
	t.Parallel()
	l := Defaults()
	for _, c := range []struct {
		class string
		oom   bool
		cause worker.Cause
		tries map[string]int
		want  string
	}{
		{worker.ClassTransient, false, worker.CauseReported, nil, "transient"},
		{worker.ClassTransient, false, worker.CauseReported, map[string]int{"transient": 1}, ""},
		{worker.ClassResourceIssue, true, worker.CauseDied, map[string]int{"transient": 1}, "out of memory"},
		{worker.ClassTimeout, false, worker.CauseHung, nil, ""},
		{worker.ClassFrameworkBug, false, worker.CauseDied, nil, ""},
		{worker.ClassFrameworkBug, false, worker.CauseReported, nil, ""},
	} {
		if got := l.Retry(c.class, c.oom, c.cause, c.tries); got != c.want {
			t.Errorf("%s after %v: %q, want %q", c.class, c.tries, got, c.want)
		}
	}
}
