package executors

import (
	"fmt"
	"testing"
	"time"
)

// TestSized checks that a job has the minimum number of nodes for the GPUs of its cases.
func TestSized(t *testing.T) {
	t.Parallel()
	c := &Config{Address: "executor.x", Nodes: 2, GPUsPerNode: 4, GPUsBy: []string{"tp"}}
	for gpus, want := range map[int]string{0: "2x4", 1: "1x1", 3: "1x3", 4: "1x4", 5: "2x4", 8: "2x4"} {
		job := c.Sized(gpus)
		if got := fmt.Sprintf("%dx%d", job.Nodes, job.GPUsPerNode); got != want {
			t.Errorf("%d GPUs: %s, want %s", gpus, got, want)
		}
		if why := c.TooLarge(gpus, false); why != "" {
			t.Errorf("%d GPUs: %s", gpus, why)
		}
	}
	if c.TooLarge(9, false) == "" {
		t.Error("two nodes of four have nine GPUs")
	}
	if c.TooLarge(4, true) != "" || c.TooLarge(5, true) == "" {
		t.Error("a server on one node of four has five GPUs")
	}
}

// TestClasses checks that every size has a task, that every task has a case, and that the limit on tasks
// is kept unless there are more sizes.
func TestClasses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tasks int
		cases map[int]int
		want  string
	}{
		{3, map[int]int{1: 1, 2: 1, 4: 1}, "[{1 1 1} {2 1 1} {4 1 1}]"},
		{1, map[int]int{1: 5, 2: 5}, "[{1 5 1} {2 5 1}]"},
		{10, map[int]int{1: 80, 8: 20}, "[{1 80 8} {8 20 2}]"},
		{10, map[int]int{1: 2, 8: 3}, "[{1 2 2} {8 3 3}]"},
		{4, map[int]int{0: 100}, "[{0 100 4}]"},
		{4, nil, "[]"},
	} {
		if got := fmt.Sprint((&Config{Tasks: tt.tasks}).Classes(tt.cases)); got != tt.want {
			t.Errorf("%d tasks for %v: %s, want %s", tt.tasks, tt.cases, got, tt.want)
		}
	}
}

// TestGrowth checks that a task gets more of what Slurm reports that it lacked, and time only if its try
// brought no row.
func TestGrowth(t *testing.T) {
	t.Parallel()
	c := &Config{Grow: 1.5, Time: "00:30:00", Limit: 30 * time.Minute, Memory: "64G"}
	for _, tt := range []struct {
		ending string
		rows   bool
		want   Grown
	}{
		{"Slurm reports OUT_OF_MEMORY on n0 (exit code 0:125)", true, Grown{Memory: 1}},
		{"Slurm reports TIMEOUT on n0 (exit code 0:15)", false, Grown{Time: 1}},
		{"Slurm reports TIMEOUT on n0 (exit code 0:15)", true, Grown{}},
		{"Slurm reports FAILED on n0 (exit code 1:0)", false, Grown{}},
	} {
		if got := c.growth(tt.ending, tt.rows); got != tt.want {
			t.Errorf("%s, rows %v: %+v, want %+v", tt.ending, tt.rows, got, tt.want)
		}
	}
	if got := c.grown(Grown{Time: 2, Memory: 1}); got.Time != "68" || got.Limit != 68*time.Minute || got.Memory != "96G" {
		t.Errorf("%+v", got)
	}
	if got := (&Config{Grow: 2}).grown(Grown{Time: 1, Memory: 1}); got.Time != "" || got.Memory != "" {
		t.Errorf("limits that the plan does not set became %+v", got)
	}
}
