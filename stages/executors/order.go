package executors

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// Order is the work that a collect submits to jobs. It is stored in a folder on the shared file system
// with these files:
//
//	order.json    this struct
//	script*.sh    the input of sbatch
//	jobs.json     the arrays that were submitted
//	groups.json   groups of cases that work or fail, from the coordinator
//	cancelled     exists if the order was cancelled
//	tasks/        the status of each task
//	logs/         the output of the jobs
type Order struct {
	ID    string `json:"id"`
	Stage string `json:"stage"`
	// Key identifies the evaluated collect and its cases. A task whose own plan has another key does not
	// measure.
	Key string `json:"key"`
	Invocation
	Shards []Shard `json:"shards"`

	Dir string `json:"-"` // the folder of the order
}

// Invocation contains the arguments with which a task makes the same plan.
type Invocation struct {
	Version  string        `json:"aicplan"`
	Path     string        `json:"path"` // absolute
	Vars     []string      `json:"vars,omitempty"`
	VarFiles []string      `json:"var_files,omitempty"` // absolute
	Environ  []string      `json:"environ,omitempty"`   // variables set in the environment
	Options  stage.Options `json:"options"`
	OutDir   string        `json:"out_dir"`
	// WorkDir is the folder in which the plan was applied.
	WorkDir string `json:"work_dir"`
	// Lacks lists sensitive variables from the command line, which tasks would not have.
	Lacks []string `json:"-"`
	// Detach makes the coordinator return once all jobs are submitted.
	Detach bool `json:"-"`
}

// Shard is the share of the cases that one task measures.
type Shard struct {
	Places []int `json:"places"`         // indexes of the cases in the grid, ascending
	GPUs   int   `json:"gpus,omitempty"` // needed by each of the cases; 0 if all jobs are alike
}

// Home returns the folder of a stage's orders. Stages share a folder if their names differ only in
// characters that are replaced in file names.
func Home(stateDir, stageAddress string) string {
	name := fileName(stageAddress)
	return filepath.Join(stateDir, "executors", name[:min(len(name), 120)])
}

// Create writes a new order to home and sets its ID.
func Create(home string, o *Order) error {
	entries, err := os.ReadDir(home)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	number := 0
	if len(entries) > 0 {
		text, _, _ := strings.Cut(entries[len(entries)-1].Name(), "-")
		if number, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%s contains %s, which is not an order", home, entries[len(entries)-1].Name())
		}
	}

	var random [3]byte
	rand.Read(random[:])
	o.ID = fmt.Sprintf("%06d-%s", number+1, hex.EncodeToString(random[:]))

	o.Dir = filepath.Join(home, o.ID)

	for _, dir := range []string{o.Dir, o.tasksDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fileutil.Explain("create", dir, err)
		}
	}

	return writeJSON(filepath.Join(o.Dir, "order.json"), o)
}

// OpenOrder reads the order in a folder.
func OpenOrder(dir string) (*Order, error) {
	o := &Order{Dir: dir}
	return o, readJSON(filepath.Join(dir, "order.json"), o)
}

// Latest returns the last order of a stage in its home, or nil if there is none.
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
		switch {
		case errors.Is(err, fs.ErrNotExist): // Create was interrupted, so nothing was submitted
		case err != nil:
			return nil, err
		case o.Stage == stageAddress:
			return o, nil
		}
	}

	return nil, nil
}

func (o *Order) tasksDir() string { return filepath.Join(o.Dir, "tasks") }

// TaskDir returns the folder for the logs of a task's workers.
func (o *Order) TaskDir(shard int) string {
	return filepath.Join(o.tasksDir(), fmt.Sprintf("%05d", shard))
}

// Label returns the label of the journal segments that a shard's tasks write.
func (o *Order) Label(shard int) string {
	_, random, _ := strings.Cut(o.ID, "-")
	return fmt.Sprintf("%s.%05d", random, shard)
}

// Array is a submitted job array.
type Array struct {
	Job    string `json:"job"`    // id of the array
	Offset int    `json:"offset"` // the shard of index 0
	Shards []int  `json:"shards"`
	Grown  Grown  `json:"grown,omitzero"`
}

func (o *Order) arrays() (out []Array, err error) {
	err = readJSON(filepath.Join(o.Dir, "jobs.json"), &out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

func (o *Order) writeArrays(a []Array) error { return writeJSON(filepath.Join(o.Dir, "jobs.json"), a) }

// Submitted returns the number of shards that were submitted. unclear is set if Slurm may have accepted an array
// whose id is not known, so that a task of it may still run.
func (o *Order) Submitted() (n int, unclear bool, err error) {
	arrays, err := o.arrays()
	last := map[int]Array{}
	for _, a := range arrays {
		for _, s := range a.Shards {
			last[s] = a
		}
	}

	for _, a := range last {
		unclear = unclear || a.Job == ""
	}
	return len(last), unclear, err
}

func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fileutil.WriteFile(path, append(raw, '\n'))
	return err
}

func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}
