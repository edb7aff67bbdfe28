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
)

// Heartbeat is how often a task says that it lives.
const Heartbeat = 20 * time.Second

// restarts is the factor between numbers of submissions and of tries.
const restarts = 1000

// Task is the side of an order that runs on a node.
type Task struct {
	Order *Order
	Shard int

	mu     sync.Mutex
	status Status
	err    error // of the last report
}

// OpenTask finds out which task of the order this process is.
func OpenTask(o *Order, offset, submission, shard int) (*Task, error) {
	index := os.Getenv("SLURM_ARRAY_TASK_ID")
	if shard < 0 {
		n, err := strconv.Atoi(index)
		if err != nil {
			return nil, fmt.Errorf("this is no task of a job array: SLURM_ARRAY_TASK_ID is %q; -shard names the shard", index)
		}
		shard = offset + n
	}
	if shard >= len(o.Shards) {
		return nil, fmt.Errorf("there is no shard %d: the order %s has %d", shard, o.ID, len(o.Shards))
	}
	t := &Task{Order: o, Shard: shard}
	restart, err := strconv.Atoi(os.Getenv("SLURM_RESTART_COUNT"))
	if err != nil {
		restart = 0 // unset at the first start
	}
	t.status = Status{
		Shard: shard, Attempt: submission*restarts + min(restart, restarts-1), State: Starting, Node: NodeName(), PID: os.Getpid(), Started: time.Now().UTC(),
		Left: o.Shards[shard].Cases,
	}
	if id := os.Getenv("SLURM_ARRAY_JOB_ID"); id != "" {
		t.status.Job = id + "_" + index
	}
	return t, t.Order.Report(t.status)
}

// NodeName is the name that Slurm has for this node, or the host's. On clusters
// for tests many nodes are one host.
func NodeName() string {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// Update changes the status, to be written with the next heartbeat, or now.
func (t *Task) Update(now bool, change func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.status)
	if now {
		t.err = t.Order.Report(t.status)
	}
}

// Beat writes the status again and again until stop is closed. It returns
// ErrFenced when a later try has taken over.
func (t *Task) Beat(stop <-chan struct{}) error {
	tick := time.NewTicker(Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			t.Update(true, func(*Status) {})
			if errors.Is(t.err, ErrFenced) {
				return t.err
			}
		}
	}
}

// End writes the last word. An error means that nobody will read it.
func (t *Task) End(state State, message string) error {
	t.Update(true, func(s *Status) { s.State, s.Message = state, message })
	return t.err
}

// Requeue asks Slurm to start this job once more, and waits to be ended. False
// means that it could not be asked; the coordinator submits what is left.
func (t *Task) Requeue(ctx context.Context) bool {
	job := t.status.Job
	if job == "" {
		return false
	}
	if _, err := exec.LookPath("scontrol"); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "scontrol", "requeue", job).Run() == nil
}
