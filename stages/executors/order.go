package executors

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/engine/stage"
	"aicplan/sink/atomic"
)

// orderFormat is raised when tasks of another aicplan could not read an order.
const orderFormat = 1

// Order is what the tasks of a collect are to do: one folder on the shared file
// system. It has
//
//	order.json    this
//	shards.ndjson the cases of each shard, a line each
//	script.sh     what sbatch was given
//	jobs.json     the arrays that were submitted
//	groups.json   what the coordinator tells the tasks of groups of cases
//	tasks/        what each task says of itself, a file each
//	logs/         the output of the jobs
type Order struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	Stage  string `json:"stage"`
	// Executor is the address of the block.
	Executor string `json:"executor,omitempty"`
	// Key is what the collect was evaluated to, with its cases: a task whose plan
	// comes to something else measures nothing.
	Key string `json:"key"`
	Invocation
	// Shards are the places of the lines in shards.ndjson.
	Shards []Line `json:"shards"`
	// Scout is true when shard 0 has the samples of the ramp: the others start
	// when it has passed.
	Scout bool `json:"scout,omitempty"`
	// Sentinels are cases that every task measures first, by their places.
	Sentinels []int     `json:"sentinels,omitempty"`
	Created   time.Time `json:"created"`

	dir string
}

// Invocation is how the plan was made.
type Invocation struct {
	Version  string        `json:"aicplan"`
	Path     string        `json:"path"` // absolute
	Vars     []string      `json:"vars,omitempty"`
	VarFiles []string      `json:"var_files,omitempty"` // absolute
	Environ  []string      `json:"environ,omitempty"`   // variables set by the environment
	Options  stage.Options `json:"options"`
	OutDir   string        `json:"out_dir"`
	// WorkDir is the folder in which the plan was applied.
	WorkDir string `json:"work_dir"`
	// Lacks are sensitive variables that were given on the command line: tasks would
	// not have them.
	Lacks []string `json:"-"`
	// Slots are those of all executors of the run.
	Slots *Slots `json:"-"`
	// CancelOnStop ends the jobs when the coordinator is stopped.
	CancelOnStop bool `json:"-"`
}

// Line is a place in a file.
type Line struct {
	Offset int64 `json:"at"`
	Bytes  int   `json:"bytes"`
	Cases  int   `json:"cases"`
	// GPUs is how many each of the cases needs; 0 where all jobs are alike.
	GPUs int `json:"gpus,omitempty"`
}

// Home is the folder of a stage's orders.
func Home(stateDir, stageAddress string) string {
	name := fileName(stageAddress)
	if len(name) > 120 {
		name = name[:120]
	}
	return filepath.Join(stateDir, "executors", name)
}

// idTime is the form of the time in the id of an order.
const idTime = "20060102T150405"

// NewID names an order in home. Ids sort by time, and behind those that are there:
// the clock of another login node may be ahead of this one's.
func NewID(home string, now time.Time) string {
	if last := lastID(home); last != "" {
		at, _, _ := strings.Cut(last, "-")
		if t, err := time.Parse(idTime, at); err == nil && !now.UTC().Truncate(time.Second).After(t) {
			now = t.Add(time.Second)
		}
	}
	var b [3]byte
	rand.Read(b[:])
	return now.UTC().Format(idTime) + "-" + hex.EncodeToString(b[:])
}

// lastID is the last id in home; "" where there is none.
func lastID(home string) string {
	entries, err := os.ReadDir(home)
	if err != nil || len(entries) == 0 {
		return "" // Create says what is wrong with the folder
	}
	return entries[len(entries)-1].Name()
}

// Shard are the places of cases, ascending, for one task.
type Shard struct {
	Places []int
	GPUs   int // that each of the cases needs; 0 where all jobs are alike
}

// Create writes an order with its shards.
func Create(home string, o *Order, shards []Shard) error {
	o.Format, o.dir = orderFormat, filepath.Join(home, o.ID)
	for _, dir := range []string{o.dir, o.tasksDir(), o.LogDir(nil)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return atomic.Explain("create", dir, err)
		}
	}
	var text []byte
	for _, s := range shards {
		line := appendPlaces(nil, s.Places)
		o.Shards = append(o.Shards, Line{Offset: int64(len(text)), Bytes: len(line), Cases: len(s.Places), GPUs: s.GPUs})
		text = append(append(text, line...), '\n')
	}
	if _, err := atomic.WriteFile(filepath.Join(o.dir, "shards.ndjson"), text); err != nil {
		return err
	}
	return writeJSON(filepath.Join(o.dir, "order.json"), o)
}

// appendPlaces writes ascending numbers as JSON: steps from one to the next.
func appendPlaces(b []byte, places []int) []byte {
	b = append(b, '[')
	last := 0
	for i, p := range places {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%d", p-last)
		last = p
	}
	return append(b, ']')
}

// OpenOrder reads the order in a folder.
func OpenOrder(dir string) (*Order, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "order.json"))
	if err != nil {
		return nil, err
	}
	o := &Order{dir: dir}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("%s is no order: %w", dir, err)
	}
	if o.Format != orderFormat {
		return nil, fmt.Errorf("%s was written by another aicplan (format %d, this one reads %d): let the tasks and the coordinator use the same", dir, o.Format, orderFormat)
	}
	return o, nil
}

// Latest is the last order of a stage in its home, nil without any. Stages whose
// names differ only in what no name of a file has share a home.
func Latest(home, stageAddress string) (*Order, error) {
	entries, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range slices.Backward(entries) {
		o, err := OpenOrder(filepath.Join(home, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was not written to its end, so nothing was submitted
		}
		if err == nil && o.Stage != stageAddress {
			continue
		}
		return o, err
	}
	return nil, nil
}

// Dir is the order's folder.
func (o *Order) Dir() string { return o.dir }

func (o *Order) tasksDir() string { return filepath.Join(o.dir, "tasks") }

// TaskDir is where a task keeps the logs of its workers.
func (o *Order) TaskDir(shard int) string {
	return filepath.Join(o.tasksDir(), fmt.Sprintf("%05d", shard))
}

// LogDir is where the output of the jobs goes.
func (o *Order) LogDir(c *Config) string {
	if c != nil && c.Logs != "" {
		return c.Logs
	}
	return filepath.Join(o.dir, "logs")
}

// Label marks what the tasks of a shard write.
func (o *Order) Label(shard int) string {
	_, random, _ := strings.Cut(o.ID, "-")
	return fmt.Sprintf("%s.%05d", random, shard)
}

// Places are the cases of a shard.
func (o *Order) Places(shard int) ([]int, error) {
	if shard < 0 || shard >= len(o.Shards) {
		return nil, fmt.Errorf("there is no shard %d: the order %s has %d", shard, o.ID, len(o.Shards))
	}
	f, err := os.Open(filepath.Join(o.dir, "shards.ndjson"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	at := o.Shards[shard]
	raw := make([]byte, at.Bytes)
	if _, err := f.ReadAt(raw, at.Offset); err != nil {
		return nil, atomic.Explain("read", f.Name(), err)
	}
	return places(raw, f.Name())
}

// AllPlaces are the cases of all shards.
func (o *Order) AllPlaces() ([][]int, error) {
	f, err := os.Open(filepath.Join(o.dir, "shards.ndjson"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	out := make([][]int, len(o.Shards))
	for i := range out {
		raw, err := r.ReadBytes('\n')
		if err != nil {
			return nil, atomic.Explain("read", f.Name(), err)
		}
		if out[i], err = places(raw, f.Name()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func places(raw []byte, path string) ([]int, error) {
	var out []int
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", path, err)
	}
	for i := 1; i < len(out); i++ {
		out[i] += out[i-1]
	}
	return out, nil
}

// Batch is one array that was submitted, or was about to be.
type Batch struct {
	Number int `json:"number"`
	// Job is the array's id; "" while sbatch has not answered.
	Job string `json:"job"`
	// Offset is the shard of index 0.
	Offset int       `json:"offset"`
	Shards []int     `json:"shards"`
	Most   int       `json:"most,omitempty"`  // of its tasks that may run at the same time; 0 is all
	After  string    `json:"after,omitempty"` // the job that it waits for
	At     time.Time `json:"at"`
}

func (o *Order) batches() ([]Batch, error) {
	raw, err := os.ReadFile(filepath.Join(o.dir, "jobs.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Batch
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(o.dir, "jobs.json"), err)
	}
	return out, nil
}

func (o *Order) writeBatches(b []Batch) error { return writeJSON(filepath.Join(o.dir, "jobs.json"), b) }

// comment marks the jobs of one submission.
func (o *Order) comment(number int) string { return fmt.Sprintf("%s:%d", commentOf(o.ID), number) }

// Groups is what the coordinator tells the tasks.
type Groups struct {
	// Worked are groups of which some case was measured somewhere.
	Worked []string `json:"worked,omitempty"`
	// Tripped are groups that are not to be tried any further, with the reason.
	Tripped map[string]string `json:"tripped,omitempty"`
}

// WriteGroups publishes g to the tasks.
func (o *Order) WriteGroups(g Groups) error { return writeJSON(filepath.Join(o.dir, "groups.json"), g) }

// GroupsFile is where the tasks find what the coordinator tells them.
func (o *Order) GroupsFile() string { return filepath.Join(o.dir, "groups.json") }

func writeJSON(path string, v any) error {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	_, err = atomic.WriteFile(path, append(raw, '\n'))
	return err
}
