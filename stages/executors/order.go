package executors

import (
	"cmp"
	"context"
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
	"aicplan/sink/base/textutil"
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

// Orders returns the orders in a state folder, by stage and age.
func Orders(stateDir string) ([]*Order, error) {
	dirs, err := fileutil.Glob(stateDir, "executors/*/*")
	if err != nil {
		return nil, err
	}

	var out []*Order
	for _, dir := range dirs {
		o, err := OpenOrder(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // its creation was interrupted
		case err != nil:
			return nil, err
		default:
			out = append(out, o)
		}
	}

	slices.SortStableFunc(out, func(a, b *Order) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// cancelledFile marks an order whose shards are not submitted again.
func (o *Order) cancelledFile() string { return filepath.Join(o.Dir, "cancelled") }

// Cancelled reports whether Cancel has cancelled the order.
func (o *Order) Cancelled() bool {
	_, err := os.Stat(o.cancelledFile())
	return err == nil
}

// Cancelled are the job arrays of a stage that were cancelled.
type Cancelled struct {
	Stage string   `json:"stage"`
	Jobs  []string `json:"jobs"`
}

// Cancel cancels the pending and running jobs of all orders in a state folder, or only of one stage. It marks
// their orders, so that a coordinator that follows them submits no shard again.
func Cancel(ctx context.Context, stateDir, stage string) ([]Cancelled, error) {
	orders, err := Orders(stateDir)
	if err != nil || len(orders) == 0 {
		return nil, err
	}

	if stage != "" && !slices.ContainsFunc(orders, func(o *Order) bool { return o.Stage == stage }) {
		var known []string
		for _, o := range orders {
			known = append(known, o.Stage)
		}
		return nil, fmt.Errorf("no jobs were submitted for %s, only for %s", stage,
			textutil.First(slices.Compact(known), 3, ", "))
	}

	jobs, err := squeue(ctx)
	if err != nil {
		return nil, err
	}

	var out []Cancelled
	for _, o := range orders {
		if stage != "" && o.Stage != stage {
			continue
		}

		arrays, err := o.arrays()
		if err != nil {
			return out, err
		}

		var ids []string
		for _, a := range arrays {
			if a.Job != "" && slices.ContainsFunc(jobs, func(j Job) bool { return j.Array == a.Job }) {
				ids = append(ids, a.Job)
			}
		}
		if len(ids) == 0 {
			continue
		}

		// Mark the order first, because its coordinator sees the jobs end.
		if err := os.WriteFile(o.cancelledFile(), nil, 0o644); err != nil {
			return out, err
		}
		if err := scancel(ctx, ids...); err != nil {
			return out, err
		}
		out = append(out, Cancelled{o.Stage, ids})
	}

	return out, nil
}

// Progress are the tasks of a stage's last order, from the statuses that they have written.
type Progress struct {
	Stage     string        `json:"stage"`
	Submitted int           `json:"submitted"`
	Tasks     map[State]int `json:"tasks"` // by state; tasks that have not started are missing
	Measured  int           `json:"measured"`
	Left      int           `json:"left"`
	Cancelled bool          `json:"cancelled,omitempty"`
}

// ProgressOf returns the progress of the last order of each stage that has tasks without a final status.
func ProgressOf(stateDir string) ([]Progress, error) {
	orders, err := Orders(stateDir)
	if err != nil {
		return nil, err
	}

	last := map[string]*Order{}
	for _, o := range orders {
		last[o.Stage] = o
	}

	var out []Progress
	for _, o := range orders {
		if last[o.Stage] != o {
			continue
		}

		p := Progress{Stage: o.Stage, Tasks: map[State]int{}, Cancelled: o.Cancelled()}
		if p.Submitted, _, err = o.Submitted(); err != nil {
			return nil, err
		}

		ended := 0
		for i, shard := range o.Shards {
			st, err := o.Status(i)
			if err != nil || st == nil {
				p.Left += len(shard.Places)
				continue
			}
			p.Tasks[st.State]++
			p.Measured, p.Left = p.Measured+st.Measured, p.Left+st.Left
			if st.State.Ended() {
				ended++
			}
		}
		if ended < p.Submitted {
			out = append(out, p)
		}
	}

	return out, nil
}
