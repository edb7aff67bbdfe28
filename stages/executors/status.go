package executors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

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
