package executors

import (
	"fmt"
	"testing"
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
