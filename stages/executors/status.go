package executors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// State is how far a task is.
type State string

// The states of a task. Those from Done on are ends.
const (
	Starting State = "starting"
	Running  State = "running"
	Done     State = "done"    // it has no case left to try
	Drained  State = "drained" // its time was over, or it was asked to stop
	Stopped  State = "stopped" // the ramp did not pass
	Needs    State = "needs"   // the runtime is not on its node
	Failed   State = "failed"
)

// Ended says whether the task is over.
func (s State) Ended() bool { return s != Starting && s != Running }

// Status is what a task says of itself. The state that Slurm reports is only a
// hint: it is forgotten after some minutes, and a process may outlive it.
type Status struct {
	Shard int `json:"shard"`
	// Attempt counts the tries of the shard: 1000 times the number of the
	// submission, and how often Slurm has started the job again.
	Attempt int    `json:"attempt"`
	Job     string `json:"job"`
	State   State  `json:"state"`
	Message string `json:"message,omitempty"`
	// Told is true where the task ended because it was told to (SIGTERM), and not
	// because its time limit was near.
	Told bool `json:"told,omitempty"`
	// Note is the last warning.
	Note string `json:"note,omitempty"`
	Node string `json:"node"`
	PID  int    `json:"pid"`
	// Environment is what the workers reported; of runtimes.Environment.
	Environment json.RawMessage `json:"environment,omitempty"`
	// Counts of this try, in rows of the plan.
	Measured int       `json:"measured"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Left     int       `json:"left"`
	Started  time.Time `json:"started"`
	Seen     time.Time `json:"seen"` // when it was written
}

// statusFile is where the task of a shard writes.
func (o *Order) statusFile(shard int) string {
	return filepath.Join(o.tasksDir(), fmt.Sprintf("%05d.json", shard))
}

// Status is what the last try of a shard said; nil where none did.
func (o *Order) Status(shard int) (*Status, error) {
	raw, err := os.ReadFile(o.statusFile(shard))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := new(Status)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", o.statusFile(shard), err)
	}
	return s, nil
}

// ErrFenced is the error of a task that another try of its shard has replaced:
// Slurm starts a job again when a node is silent, and what runs there may live.
var ErrFenced = errors.New("another try of this shard has taken over")

// Report writes the status of a task, unless a later try has.
func (o *Order) Report(s Status) error {
	if have, err := o.Status(s.Shard); err == nil && have != nil && have.Attempt > s.Attempt {
		return fmt.Errorf("%w: try %d on %s", ErrFenced, have.Attempt, have.Node)
	}
	s.Seen = time.Now().UTC()
	return writeJSON(o.statusFile(s.Shard), s)
}
