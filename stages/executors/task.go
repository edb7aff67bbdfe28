package executors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
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

// State is the state of a task.
type State string

// States of a task. All except the first two are final.
const (
	Starting State = "starting"
	Running  State = "running"
	Done     State = "done"    // no case is left to measure
	Drained  State = "drained" // interrupted, for example before its time limit
	Stopped  State = "stopped" // the ramp did not pass
	Needs    State = "needs"   // the runtime is not available on the node
	Failed   State = "failed"
)

// Ended reports whether the state is final.
func (s State) Ended() bool { return s != Starting && s != Running }

// Status is the report of a task to the coordinator. Slurm's own state is only a hint, because Slurm
// forgets it after some minutes.
type Status struct {
	Shard int `json:"shard"`
	// Attempt numbers the tries of the shard: 1000 times the number of the submission plus the number of
	// requeues.
	Attempt int    `json:"attempt"`
	Job     string `json:"job"`
	State   State  `json:"state"`
	Message string `json:"message,omitempty"`
	// Note is the last warning.
	Note string `json:"note,omitempty"`
	Node string `json:"node"`
	PID  int    `json:"pid"`
	// Environment is the runtimes.Environment that the workers reported.
	Environment json.RawMessage `json:"environment,omitempty"`
	// Counts of this try, in rows of the plan.
	Measured int       `json:"measured"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Left     int       `json:"left"`
	Started  time.Time `json:"started"`
	Seen     time.Time `json:"seen"` // time of writing
}

// statusFile returns the path of a shard's status.
func (o *Order) statusFile(shard int) string {
	return filepath.Join(o.tasksDir(), fmt.Sprintf("%05d.json", shard))
}

// Status returns the status of a shard's last try, or nil if there is none.
func (o *Order) Status(shard int) (*Status, error) {
	s := new(Status)
	err := readJSON(o.statusFile(shard), s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return s, err
}

// ErrFenced is returned to a task whose shard has a later try. If a node stops responding, Slurm
// requeues its job while the processes there may still run.
var ErrFenced = errors.New("another try of this shard has taken over")

// Report writes the status of a task. It returns ErrFenced if a later try has written one.
func (o *Order) Report(s Status) error {
	if have, err := o.Status(s.Shard); err == nil && have != nil && have.Attempt > s.Attempt {
		return fmt.Errorf("%w: try %d on %s", ErrFenced, have.Attempt, have.Node)
	}
	s.Seen = time.Now().UTC()
	return writeJSON(o.statusFile(s.Shard), s)
}
