package executors

import (
	"testing"
	"time"
)

// TestOccupied: tasks that can run at the same time are counted as Slurm lets them.
func TestOccupied(t *testing.T) {
	t.Parallel()
	queue := func(array, state, reason string, n int) (jobs []Job) {
		for i := range n {
			jobs = append(jobs, Job{Array: array, Index: i, State: state, Reason: reason})
		}
		return jobs
	}
	many := queue("7", "PENDING", "JobArrayTaskLimit", 9)
	for name, tt := range map[string]struct {
		scout   bool
		batches []Batch
		jobs    []Job
		want    int
	}{
		"nothing submitted":       {want: 0},
		"its limit":               {batches: []Batch{{Job: "7", Most: 2}}, jobs: many, want: 2},
		"fewer left than that":    {batches: []Batch{{Job: "7", Most: 12}}, jobs: many, want: 9},
		"not written down":        {batches: []Batch{{Job: "7"}}, jobs: many, want: 3},
		"two arrays":              {batches: []Batch{{Job: "7", Most: 2}, {Job: "8", Most: 1}}, jobs: append(queue("8", "RUNNING", "None", 1), many...), want: 3},
		"held ones do not run":    {batches: []Batch{{Job: "7", Most: 2}}, jobs: queue("7", "PENDING", "JobHeldUser", 5), want: 0},
		"samples, others behind":  {scout: true, batches: []Batch{{Job: "8", Shards: []int{0}, Most: 1}, {Job: "7", Most: 3}}, jobs: append(queue("8", "RUNNING", "None", 1), many...), want: 3},
		"samples alone":           {scout: true, batches: []Batch{{Job: "8", Shards: []int{0}, Most: 1}}, jobs: queue("8", "RUNNING", "None", 1), want: 1},
		"a stranger's array":      {batches: []Batch{{Job: "9", Most: 2}}, jobs: many, want: 0},
		"sbatch has not answered": {batches: []Batch{{Job: ""}, {Job: absent}}, jobs: many, want: 0},
	} {
		o := &Order{Scout: tt.scout}
		if got := o.occupied(tt.batches, tt.jobs, 3); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// TestSlots: orders of one executor share its slots, those of another have their
// own, and what nobody follows counts.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := new(Slots)
	s.set("a", "1", 2)
	s.set("a", "2", 0)
	s.set("b", "3", 9)
	for i, tt := range []struct {
		order           string
		elsewhere, want int
		got             int
	}{{"2", 1, 5, 1}, {"2", 1, 1, 0}, {"2", 0, 9, 1}, {"1", 0, 1, 0}} {
		if got := s.take("a", tt.order, 4, tt.elsewhere, tt.want); got != tt.got {
			t.Errorf("%d: order %s has %d more, want %d", i, tt.order, got, tt.got)
		}
	}
	s.set("a", "1", 0) // it has ended
	if got := s.take("a", "2", 4, 0, 9); got != 2 {
		t.Errorf("%d slots are free, want 2", got)
	}
}

// TestTasksOfADeadCoordinatorCount: their order is found by the comment of its jobs.
func TestTasksOfADeadCoordinatorCount(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	order := func(stage, executor, path string) *Order {
		home := Home(state, stage)
		o := &Order{ID: NewID(home, time.Now()), Stage: stage, Executor: executor, Invocation: Invocation{Path: path}}
		if err := Create(home, o, []Shard{{Places: []int{0}}}); err != nil {
			t.Fatal(err)
		}
		return o
	}
	mine := order("collect.a", "executor.x", "/plan.hcl")
	f := &Follower{Config: &Config{Address: "executor.x", Parallel: 4}, Order: mine, Slots: new(Slots)}
	var jobs []Job
	for i, o := range []*Order{order("collect.b", "executor.x", "/plan.hcl"), order("collect.c", "executor.y", "/plan.hcl"), order("collect.d", "executor.x", "/other.hcl"), mine} {
		array := []string{"5", "6", "7", "8"}[i]
		if err := o.writeBatches([]Batch{{Job: array, Shards: []int{0}, Most: 2}}); err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			jobs = append(jobs, Job{Array: array, Index: k, State: "PENDING", Reason: "Priority", Comment: o.comment(0)})
		}
	}
	jobs = append(jobs, Job{Array: "9", State: "RUNNING", Comment: "aicplan:../../etc:0"}, Job{Array: "10", State: "RUNNING", Comment: "something else"})
	if got := f.elsewhere(jobs); got != 2 {
		t.Errorf("%d tasks of other orders, want the 2 of collect.b", got)
	}
	f.Slots.set("executor.x", jobs[0].Comment[len("aicplan:"):len(jobs[0].Comment)-2], 2)
	if got := f.elsewhere(jobs); got != 0 {
		t.Errorf("%d tasks of other orders, but all are followed in this run", got)
	}
	f.Slots.leave("executor.x", jobs[0].Comment[len("aicplan:"):len(jobs[0].Comment)-2]) // after an error, say
	if got := f.elsewhere(jobs); got != 2 {
		t.Errorf("%d tasks of an order that is followed no more, want 2", got)
	}
}
