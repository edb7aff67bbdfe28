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
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
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

var header = regexp.MustCompile(`(?m)^#SBATCH (?:-(\w) |--([a-z-]+)=?)(.*)$`)

func (c *cluster) sbatch(args []string, stdout io.Writer) error {
	if len(args) == 2 && args[0] == "serve" {
		return c.serve(args[1])
	}
	opts, rest := map[string]string{}, args
	for len(rest) > 0 && strings.HasPrefix(rest[0], "--") {
		name, value, _ := strings.Cut(rest[0][2:], "=")
		opts[name], rest = value, rest[1:]
	}
	if len(rest) == 0 {
		return errors.New("no script")
	}
	if why := os.Getenv("SLURMTEST_REFUSE"); why != "" {
		return errors.New("Batch job submission failed: " + why)
	}
	text, err := os.ReadFile(rest[0])
	if err != nil {
		return err
	}
	for _, m := range header.FindAllStringSubmatch(string(text), -1) {
		name := m[2]
		if name == "" {
			name = map[string]string{"J": "job-name", "o": "output", "e": "error", "A": "account", "C": "constraint", "p": "partition", "q": "qos", "t": "time", "N": "nodes"}[m[1]]
		}
		if _, given := opts[name]; !given {
			opts[name] = strings.Trim(m[3], `"`)
		}
	}
	if p := opts["partition"]; p == "nowhere" {
		return errors.New("invalid partition specified: nowhere\nsbatch: error: Batch job submission failed: Invalid partition name specified")
	}
	if n, err := strconv.Atoi(os.Getenv("SLURMTEST_NODES")); err == nil && opts["exclude"] != "" && len(strings.Split(opts["exclude"], ",")) >= n {
		//lint:ignore ST1005 Slurm words it so
		return errors.New("Batch job submission failed: Requested node configuration is not available")
	}
	indices, most, err := array(opts["array"])
	if err != nil {
		return err
	}
	id := ""
	err = c.locked(func() error {
		if most, err := strconv.Atoi(os.Getenv("SLURMTEST_MOST")); err == nil {
			tasks, err := c.read("")
			if err != nil {
				return err
			}
			active := 0
			for _, t := range tasks {
				if t.active() {
					active++
				}
			}
			if active+len(indices) > most {
				//lint:ignore ST1005 Slurm words it so
				return errors.New("Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)")
			}
		}
		raw, _ := os.ReadFile(filepath.Join(c.dir, "last"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(raw)))
		id = strconv.Itoa(n + 1)
		if err := os.WriteFile(filepath.Join(c.dir, "last"), []byte(id), 0o644); err != nil {
			return err
		}
		copied := filepath.Join(c.dir, "script-"+id) // as sbatch does
		if err := os.WriteFile(copied, text, 0o755); err != nil {
			return err
		}
		for _, i := range indices {
			fill := strings.NewReplacer("%A", id, "%a", strconv.Itoa(i), "%j", id)
			t := &task{
				Array: id, Index: i, State: "PENDING", Reason: "None", Comment: opts["comment"], Name: opts["job-name"], Script: copied, Args: rest[1:],
				Out: fill.Replace(opts["output"]), Err: fill.Replace(opts["error"]), After: strings.TrimPrefix(opts["dependency"], "afterok:"), Most: most, Exclude: opts["exclude"],
			}
			if err := c.write(t); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if os.Getenv("SLURMTEST_HOLD") == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cmd := exec.Command(self, "serve", id)
		cmd.Args[0] = "sbatch"
		cmd.Env = append(os.Environ(), "SLURMTEST_DIR="+c.dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	if late := os.Getenv("SLURMTEST_LATE"); late != "" && os.Remove(late) == nil {
		//lint:ignore ST1005 Slurm words it so
		return errors.New("Batch job submission failed: Socket timed out on send/recv operation")
	}
	fmt.Fprintln(stdout, id)
	return nil
}

// mostIndices is MaxArraySize.
func mostIndices() int {
	if n, err := strconv.Atoi(os.Getenv("SLURMTEST_ARRAY")); err == nil {
		return n
	}
	return 1001
}

// array reads 0-3,7%2.
func array(text string) (indices []int, most int, err error) {
	list, limit, limited := strings.Cut(text, "%")
	if limited {
		if most, err = strconv.Atoi(limit); err != nil {
			return nil, 0, err
		}
	}
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err := errors.Join(err1, err2); err != nil {
			//lint:ignore ST1005 Slurm words it so
			return nil, 0, fmt.Errorf("Invalid job array specification: %q", text)
		}
		if b >= mostIndices() {
			//lint:ignore ST1005 Slurm words it so
			return nil, 0, errors.New("Batch job submission failed: Invalid job array specification")
		}
		for i := a; i <= b; i++ {
			indices = append(indices, i)
		}
	}
	return indices, most, nil
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

// serve runs the tasks of one array until all have ended.
func (c *cluster) serve(array string) error {
	nodes, err := strconv.Atoi(os.Getenv("SLURMTEST_NODES"))
	if err != nil {
		nodes = 4
	}
	free := make([]bool, nodes)
	for i := range free {
		free[i] = true
	}
	ended := make(chan int)
	running := 0
	for {
		left := 0
		err := c.locked(func() error {
			tasks, err := c.read(array)
			if err != nil {
				return err
			}
			for _, t := range tasks {
				if !t.active() {
					continue
				}
				left++
				if t.State != "PENDING" {
					continue
				}
				if why, over := c.waits(t); why != "" {
					if over {
						t.State, left = "CANCELLED", left-1
					}
					if t.Reason != why {
						t.Reason = why
						if err := c.write(t); err != nil {
							return err
						}
					}
					continue
				}
				not := strings.Split(t.Exclude, ",")
				node := -1
				for i := range free {
					if node < 0 && free[i] && !slices.Contains(not, "n"+strconv.Itoa(i)) {
						node = i
					}
				}
				if node < 0 || t.Most > 0 && running >= t.Most {
					continue
				}
				if err := c.start(t, node, ended); err != nil {
					return err
				}
				if t.State == "RUNNING" {
					free[node] = false
					running++
				} else {
					left--
				}
			}
			return nil
		})
		if err != nil || left == 0 && running == 0 {
			return err
		}
		select {
		case node := <-ended:
			free[node] = true
			running--
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// waits says why a task does not start; over is true when it never will.
func (c *cluster) waits(t *task) (why string, over bool) {
	if why := os.Getenv("SLURMTEST_REASON"); why != "" {
		return why, false
	}
	if t.After == "" {
		return "", false
	}
	tasks, err := c.read(t.After)
	if err != nil {
		return "Dependency", false
	}
	for _, d := range tasks {
		switch {
		case d.active() || d.State == "REQUEUED":
			return "Dependency", false
		case !d.wellDone():
			return "DependencyNeverSatisfied", true
		}
	}
	return "", false
}

// start runs a task on a node; the lock is held.
func (c *cluster) start(t *task, node int, ended chan<- int) error {
	out, err := os.OpenFile(t.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil { // as Slurm: without a word
		t.State, t.Reason, t.Exit = "FAILED", "JobLaunchFailure", "0:53"
		return c.write(t)
	}
	defer out.Close()
	said, err := os.OpenFile(t.Err, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer said.Close()
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	cmd := exec.Command(t.Script, t.Args...)
	cmd.Stdout, cmd.Stderr = out, said
	cmd.Env = append(os.Environ(), "SLURM_ARRAY_JOB_ID="+t.Array, "SLURM_ARRAY_TASK_ID="+strconv.Itoa(t.Index), "SLURM_JOB_ID="+t.Array, "SLURM_JOB_USER="+name,
		"SLURMD_NODENAME=n"+strconv.Itoa(node))
	if t.Restart > 0 {
		cmd.Env = append(cmd.Env, "SLURM_RESTART_COUNT="+strconv.Itoa(t.Restart))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.State, t.Reason, t.Node, t.PID = "RUNNING", "None", "n"+strconv.Itoa(node), cmd.Process.Pid
	if err := errors.Join(c.write(t), c.busiest()); err != nil {
		return err
	}
	go func() {
		err := cmd.Wait()
		_ = c.locked(func() error { return c.over(t, err) })
		ended <- node
	}()
	return nil
}

// over writes down how a task ended; the lock is held.
func (c *cluster) over(t *task, err error) error {
	raw, rerr := os.ReadFile(c.path(t))
	if rerr != nil {
		return rerr
	}
	now := &task{}
	if err := json.Unmarshal(raw, now); err != nil {
		return err
	}
	now.PID = 0
	var exit *exec.ExitError
	switch {
	case now.State == "REQUEUED":
		now.State, now.Reason = "PENDING", "None"
		now.Restart++
	case now.State == "CANCELLED":
	case err == nil:
		now.State, now.Exit = "COMPLETED", "0:0"
	case errors.As(err, &exit):
		now.State, now.Reason, now.Exit = "FAILED", "NonZeroExitCode", fmt.Sprintf("%d:0", exit.ExitCode())
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			now.Exit = fmt.Sprintf("0:%d", ws.Signal())
		}
	}
	return c.write(now)
}
