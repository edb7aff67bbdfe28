package main

import (
	"strings"
	"testing"
	"time"

	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
)

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		p       stage.Progress
		elapsed time.Duration
		quiet   time.Duration // time since a case ended
		want    string
	}{
		{stage.Progress{}, 12 * time.Second, 0, "still at work, 12s"},
		{stage.Progress{Total: 20}, 12 * time.Second, 0, "0 of 20, 12s"},
		{stage.Progress{Done: 5, Total: 2000}, 2 * time.Second, 0, "5 of 2,000, 2.5/s, 13m18s left"},
		{stage.Progress{Done: 105, Total: 205, Before: 100}, 10 * time.Second, 0, "105 of 205, 30.0/min, 3m20s left"},
		{stage.Progress{Done: 100, Total: 205, Before: 100}, 10 * time.Second, 0, "100 of 205, 10s"},
		{stage.Progress{Done: 1, Failed: 1, Skipped: 1, Total: 6}, 30 * time.Second, 0,
			"3 of 6, 1 failed, 6.0/min, 30s left"},
		{stage.Progress{Done: 94, Total: 100}, 40 * time.Second, 2 * time.Second, "94 of 100, 2.4/s, 3s left"},
		{stage.Progress{Done: 94, Total: 100}, 50 * time.Second, 10 * time.Second, "94 of 100, 1.9/s, finishing the last 6"},
		{stage.Progress{Done: 4, Total: 4}, time.Second, 0, "4 of 4, 4.0/s"},
		{stage.Progress{Done: 4, Total: 4}, 0, 0, "4 of 4"},
	} {
		started := time.Unix(0, 0)
		now := started.Add(c.elapsed)
		pace := pace{last: c.p, moved: now.Add(-c.quiet)}
		if got := pace.text(started, now); got != c.want {
			t.Errorf("%+v after %v: %q, want %q", c.p, c.elapsed, got, c.want)
		}
	}
}

// TestStatusWithoutRoom checks that lineView omits the table of a status.
func TestStatusWithoutRoom(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	v := newLineView(&app{stdout: &out})
	v.p = &plan.Plan{}
	now := time.Unix(0, 0)
	v.now = func() time.Time { return now }
	v.StageStart("collect.load", "collect", "")
	now = now.Add(heartbeat)
	v.Message("collect.load", stage.MessageStatus, "8 of 9 requests\n  a table")
	if got := out.String(); !strings.HasSuffix(got, "collect.load: 8 of 9 requests\n") {
		t.Errorf("%q", got)
	}
}

// TestOmittedRowsAreCounted checks the count of omitted rows. A result has a limited number of rows, so at
// the limit the count is a lower bound.
func TestOmittedRowsAreCounted(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{5: "", 6: "... and 1 more\n", 19: "... and 14 more\n",
		stage.MaxCheckRows: "... and at least 15 more\n"} {
		check := stage.CheckResult{Name: "noise", Result: "warn", Rows: make([]string, n)}
		got := failedChecks(&run.StageResult{Outcome: &stage.Outcome{Checks: []stage.CheckResult{check}}})
		if _, rest, _ := strings.Cut(got, "..."); rest != strings.TrimPrefix(want, "...") {
			t.Errorf("%d rows: %q", n, got)
		}
	}
}
