// Package slurmtest stands in for a cluster: sbatch, squeue, scontrol, scancel
// and sacct as far as executors use them, with jobs that are real processes on
// this host. It knows arrays, dependencies, limits on how many run at once,
// requeues and cancellation. It is for tests on machines without Slurm; those
// with a real one are beside it.
//
// The folder SLURMTEST_DIR holds the state. SLURMTEST_NODES is the number of
// nodes, of one task each (4). SLURMTEST_REASON lets every task wait for ever
// for that reason. SLURMTEST_DOWN, a file, makes all commands fail while it is
// there. SLURMTEST_LATE, a file, lets the next sbatch take its jobs and say that
// it got no answer. SLURMTEST_REFUSE is what sbatch says instead of taking any.
// SLURMTEST_MOST is how many tasks may wait and run, SLURMTEST_ARRAY is
// MaxArraySize. With SLURMTEST_FORGET scontrol knows no task that has ended, and
// with SLURMTEST_ACCOUNTING sacct knows them all; its value is how those that
// failed are said to have ended. The file "busiest" has the largest number of tasks
// that ran at the same time.
package slurmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Commands are the names of the programs.
var Commands = []string{"sbatch", "squeue", "scontrol", "scancel", "sacct"}

// Main is one of Commands; it returns the exit code.
func Main(name string, args []string, stdout, stderr io.Writer) int {
	c, err := open()
	if err == nil {
		switch name {
		case "sbatch":
			err = c.sbatch(args, stdout)
		case "squeue":
			err = c.squeue(args, stdout)
		case "scontrol":
			err = c.scontrol(args, stdout)
		case "scancel":
			err = c.scancel(args)
		case "sacct":
			err = c.sacct(args, stdout)
		default:
			err = fmt.Errorf("no command %s", name)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %v\n", name, err)
		return 1
	}
	return 0
}

// task is one element of an array, as its file has it.
type task struct {
	Array   string   `json:"array"`
	Index   int      `json:"index"`
	State   string   `json:"state"`
	Reason  string   `json:"reason"`
	Comment string   `json:"comment"`
	Name    string   `json:"name"`
	Script  string   `json:"script"`
	Args    []string `json:"args"`
	Out     string   `json:"out"`
	Err     string   `json:"err"`
	After   string   `json:"after"`
	Most    int      `json:"most"`
	Exclude string   `json:"exclude"`
	Node    string   `json:"node"`
	PID     int      `json:"pid"`
	Restart int      `json:"restart"`
	Exit    string   `json:"exit"`
}

func (t *task) id() string     { return fmt.Sprintf("%s_%d", t.Array, t.Index) }
func (t *task) active() bool   { return t.State == "PENDING" || t.State == "RUNNING" }
func (t *task) wellDone() bool { return t.State == "COMPLETED" }

// cluster is the folder with its lock.
type cluster struct{ dir string }

func open() (*cluster, error) {
	dir := os.Getenv("SLURMTEST_DIR")
	if dir == "" {
		dir = ".slurmtest"
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if down := os.Getenv("SLURMTEST_DOWN"); down != "" {
		if _, err := os.Stat(down); err == nil {
			//lint:ignore ST1005 Slurm words it so
			return nil, errors.New("Unable to contact slurm controller (connect failure)")
		}
	}
	return &cluster{dir}, os.MkdirAll(filepath.Join(dir, "tasks"), 0o755)
}

// locked runs do while no other command changes anything.
func (c *cluster) locked(do func() error) error {
	f, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do()
}

func (c *cluster) path(t *task) string { return filepath.Join(c.dir, "tasks", t.id()+".json") }

func (c *cluster) write(t *task) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	tmp := c.path(t) + ".tmp"
	if err := os.WriteFile(tmp, raw, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, c.path(t))
}

// read lists tasks of an array, or all.
func (c *cluster) read(array string) ([]*task, error) {
	entries, err := os.ReadDir(filepath.Join(c.dir, "tasks"))
	if err != nil {
		return nil, err
	}
	var out []*task
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || array != "" && !strings.HasPrefix(e.Name(), array+"_") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(c.dir, "tasks", e.Name()))
		if err != nil {
			return nil, err
		}
		t := &task{}
		if err := json.Unmarshal(raw, t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *task) int {
		if a.Array != b.Array {
			return strings.Compare(a.Array, b.Array)
		}
		return a.Index - b.Index
	})
	return out, nil
}

func (c *cluster) squeue(_ []string, stdout io.Writer) error {
	tasks, err := c.read("")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.active() {
			fmt.Fprintf(stdout, "%s|%d|%s|%s|%s\n", t.Array, t.Index, t.State, t.Reason, t.Comment)
		}
	}
	return nil
}

func (c *cluster) scontrol(args []string, stdout io.Writer) error {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "--") })
	switch {
	case len(args) == 2 && args[0] == "show" && args[1] == "config":
		fmt.Fprintln(stdout, "MaxArraySize            =", mostIndices())
		return nil
	case len(args) == 3 && args[0] == "show":
		array, index, one := strings.Cut(args[2], "_")
		tasks, err := c.read(array)
		if err != nil {
			return err
		}
		shown := 0
		for _, t := range tasks {
			if one && strconv.Itoa(t.Index) != index || os.Getenv("SLURMTEST_FORGET") != "" && !t.active() {
				continue
			}
			shown++
			fmt.Fprintf(stdout, "JobId=%s ArrayJobId=%s ArrayTaskId=%d JobName=%s JobState=%s Reason=%s ExitCode=%s NodeList=%s Restarts=%d StdOut=%s\n",
				t.Array, t.Array, t.Index, t.Name, t.State, t.Reason, t.Exit, t.Node, t.Restart, t.Out)
		}
		if shown == 0 {
			//lint:ignore ST1005 Slurm words it so
			return errors.New("Invalid job id specified")
		}
		return nil
	case len(args) == 2 && args[0] == "requeue":
		return c.end(args[1], "REQUEUED", "")
	case len(args) == 3 && args[0] == "update":
		return c.update(strings.TrimPrefix(args[1], "JobId="), args[2])
	}
	return fmt.Errorf("invalid request %q", args)
}

// update changes how many tasks of an array may run at the same time; of a time to
// start nothing is known here.
func (c *cluster) update(array, what string) error {
	text, ok := strings.CutPrefix(what, "ArrayTaskThrottle=")
	if !ok {
		return nil
	}
	most, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return c.locked(func() error {
		tasks, err := c.read(array)
		for _, t := range tasks {
			t.Most = most
			if err := c.write(t); err != nil {
				return err
			}
		}
		return err
	})
}

// busiest keeps the largest number of tasks that ran at the same time in a file of
// that name; the lock is held.
func (c *cluster) busiest() error {
	tasks, err := c.read("")
	if err != nil {
		return err
	}
	n := 0
	for _, t := range tasks {
		if t.State == "RUNNING" {
			n++
		}
	}
	path := filepath.Join(c.dir, "busiest")
	if raw, err := os.ReadFile(path); err == nil {
		if most, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil && most >= n {
			return nil
		}
	}
	return os.WriteFile(path, []byte(strconv.Itoa(n)+"\n"), 0o644)
}

// sacct lists tasks of arrays as --parsable2 does.
func (c *cluster) sacct(args []string, stdout io.Writer) error {
	as := os.Getenv("SLURMTEST_ACCOUNTING")
	if as == "" {
		//lint:ignore ST1005 Slurm words it so
		return errors.New("Slurm accounting storage is disabled")
	}
	for _, a := range args {
		list, ok := strings.CutPrefix(a, "--jobs=")
		if !ok {
			continue
		}
		for array := range strings.SplitSeq(list, ",") {
			tasks, err := c.read(array)
			if err != nil {
				return err
			}
			for _, t := range tasks {
				state := t.State
				if state == "FAILED" {
					state = as
				}
				fmt.Fprintf(stdout, "%s|%s|%s|%s|%s\n", t.id(), state, t.Exit, t.Node, t.Reason)
			}
		}
	}
	return nil
}

func (c *cluster) scancel(args []string) error {
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			if err := c.end(a, "CANCELLED", "None"); err != nil {
				return err
			}
		}
	}
	return nil
}

// end takes a task, or all of an array, out of the queue; its process is told.
func (c *cluster) end(id, state, reason string) error {
	array, index, one := strings.Cut(id, "_")
	return c.locked(func() error {
		tasks, err := c.read(array)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if one && strconv.Itoa(t.Index) != index || !t.active() {
				continue
			}
			if state == "REQUEUED" && t.State == "PENDING" {
				continue
			}
			ran := t.State == "RUNNING"
			t.State, t.Reason = state, reason
			if err := c.write(t); err != nil {
				return err
			}
			if ran && t.PID > 0 {
				_ = syscall.Kill(-t.PID, syscall.SIGTERM) // it may have ended by itself
			}
		}
		return nil
	})
}
