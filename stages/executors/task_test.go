package executors

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newTask returns an order with one shard and its task, which is submission 1.
func newTask(t *testing.T) (*Order, *Task) {
	t.Helper()
	t.Setenv("SLURM_ARRAY_TASK_ID", "0")
	t.Setenv("SLURM_RESTART_COUNT", "")
	o := &Order{Stage: "collect.a", Shards: []Shard{{Places: []int{0}}}}
	if err := Create(t.TempDir(), o); err != nil {
		t.Fatal(err)
	}
	task, err := OpenTask(o, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return o, task
}

func TestBeatDuringUpdates(t *testing.T) {
	_, task := newTask(t)
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			if err := task.Beat(stop); err != nil {
				t.Error(err)
			}
		})
		for range 20 {
			time.Sleep(heartbeat)
			task.Update(true, func(s *Status) { s.Measured++ })
		}
		close(stop)
		all.Wait()
		if err := task.End(Done, ""); err != nil {
			t.Error(err)
		}
	})
}

func TestTaskIsFencedByLaterTry(t *testing.T) {
	o, task := newTask(t)
	if err := o.Report(Status{Attempt: 2 * restarts, Node: "n2"}); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := task.Beat(nil); !errors.Is(err, ErrFenced) {
			t.Errorf("error %v", err)
		}
	})
	if err := task.End(Done, ""); !errors.Is(err, ErrFenced) {
		t.Errorf("error %v", err)
	}
}
