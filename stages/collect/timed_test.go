package collect

import (
	"strings"
	"testing"
	"time"

	"aicplan/engine/stage"
	"aicplan/stages/executors"
)

// TestTooLongForATask checks the warning of a plan for the largest job.
func TestTooLongForATask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit, drain time.Duration
		tasks, n     int
		seconds      float64 // per case
		workers      int
		want         []string // parts of the warning; empty if there is none
	}{
		"fits to the second": {limit: 10 * time.Minute, drain: 2 * time.Minute, tasks: 2, n: 16, seconds: 60, workers: 1},
		"one case too many": {limit: 10 * time.Minute, drain: 2 * time.Minute, tasks: 2, n: 17, seconds: 60, workers: 1,
			want: []string{"largest task has 9 cases, estimated to take 9m00s", "takes cases for 8m00s (time 10m00s less drain)",
				"again 1 times", `more tasks, or time "00:11:00", would fit`}},
		"no limit": {drain: time.Minute, tasks: 1, n: 1e6, seconds: 1e6, workers: 1},
		"a campaign": {limit: 2 * time.Hour, drain: 2 * time.Minute, tasks: 4, n: 315142, seconds: 1.5, workers: 8,
			want: []string{"78786 cases, estimated to take 32h49m", "again 16 times", `time "1-08:52:00"`}},
		"a case longer than a task": {limit: 10 * time.Minute, drain: 2 * time.Minute, tasks: 4, n: 4, seconds: 3600,
			workers: 1,
			want:    []string{"a single case is estimated to take 1h00m", "without any row", "raise time to 01:02:00 or more"}},
		"side by side each case is as long": {limit: 10 * time.Minute, drain: 2 * time.Minute, tasks: 1, n: 80, seconds: 100,
			workers: 8,
			want:    []string{"a single case is estimated to take 13m20s"}},
		"a case longer than the time before the drain": {limit: 10 * time.Minute, drain: 2 * time.Minute, tasks: 1, n: 1,
			seconds: 540, workers: 1,
			want: []string{"has 1 case,", `time "00:11:00", would fit`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := &Config{place: &executors.Config{Address: "executor.e", Kind: executors.Slurm, Limit: c.limit, Drain: c.drain,
				Tasks: c.tasks, Nodes: 1}}
			d, err := cfg.splitJobs(nil, c.n)
			if err != nil {
				t.Fatal(err)
			}
			p := &stage.Plan{Request: cfg.place.Request(d.jobs)}
			// The estimate assumes jobs that run in parallel.
			counts := stage.CaseCounts{Collect: c.n, Seconds: c.seconds * float64(c.n) / float64(p.Request.AtOnce)}
			(&planning{Config: cfg, jobs: d, counts: counts, atOnce: c.workers, plan: p}).timed()
			got := strings.Join(p.Warnings, "\n")

			if len(c.want) == 0 && got != "" {
				t.Errorf("warned: %s", got)
			}
			for _, part := range c.want {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in: %s", part, got)
				}
			}
			if (p.Request.TaskLimit > 0) != (c.limit > 0) {
				t.Errorf("the limit of a task is %v s", p.Request.TaskLimit)
			}
		})
	}
}
