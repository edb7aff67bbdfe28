package executors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"aicplan/sink/base/proc"
)

// heartbeat is the interval at which a task writes its status.
const heartbeat = 20 * time.Second

// restarts is the number of tries that are reserved for each submission in Status.Attempt.
const restarts = 1000

// Task is the part of an order that runs on a node.
type Task struct {
	Order *Order
	Shard int

	mu     sync.Mutex
	status Status
}

// OpenTask determines from Slurm's environment variables which task of the order this process is, and
// reports its start.
func OpenTask(o *Order, offset, submission int) (*Task, error) {
	index := os.Getenv("SLURM_ARRAY_TASK_ID")
	n, err := strconv.Atoi(index)
	if err != nil {
		return nil, fmt.Errorf("this process is not a task of a job array: SLURM_ARRAY_TASK_ID is %q", index)
	}

	shard := offset + n
	if shard < 0 || shard >= len(o.Shards) {
		return nil, fmt.Errorf("there is no shard %d: the order %s has %d", shard, o.ID, len(o.Shards))
	}

	t := &Task{Order: o, Shard: shard}
	restart, err := strconv.Atoi(os.Getenv("SLURM_RESTART_COUNT"))
	if err != nil {
		restart = 0 // unset before the first requeue
	}

	t.status = Status{
		Shard: shard, Attempt: submission*restarts + min(restart, restarts-1), State: Starting, Node: proc.NodeName(),
		PID: os.Getpid(), Started: time.Now().UTC(),
		Left: len(o.Shards[shard].Places),
	}

	t.status.Job = os.Getenv("SLURM_ARRAY_JOB_ID") + "_" + index
	return t, t.Order.Report(t.status)
}

// Update changes the status. It is written immediately if now is true, else with the next heartbeat. The error is that
// of writing it.
func (t *Task) Update(now bool, change func(*Status)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.status)
	if !now {
		return nil
	}
	return t.Order.Report(t.status)
}

// Beat writes the status periodically until stop is closed. It returns ErrFenced if
// a later try has taken over.
func (t *Task) Beat(stop <-chan struct{}) error {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			if err := t.Update(true, func(*Status) {}); errors.Is(err, ErrFenced) {
				return err
			}
		}
	}
}

// End writes the final status.
func (t *Task) End(state State, message string) error {
	return t.Update(true, func(s *Status) { s.State, s.Message = state, message })
}

// Requeue requeues this job in Slurm. It returns false if that failed; the coordinator then submits the
// remaining cases.
func (t *Task) Requeue(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return proc.Run(exec.CommandContext(ctx, "scontrol", "requeue", t.status.Job)) == nil
}
