package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// slurmCommands are the names of the programs.
var slurmCommands = []string{"sbatch", "squeue", "scontrol", "scancel", "sacct"}

// slurmMain runs one of Commands; it returns the exit code.
func slurmMain(name string, args []string, stdout, stderr io.Writer) int {
	c, err := openFakeSlurm()
	if err == nil {
		switch name {
		case "sbatch":
			err = c.sbatch(args, stdout)

		case "squeue":
			err = c.squeue(stdout)

		case "scontrol":
			if args[0] == "requeue" {
				err = c.end(args[1], "REQUEUED")
			}

		case "scancel":
			for _, id := range args {
				err = errors.Join(err, c.end(id, "CANCELLED"))
			}

		case "sacct":
			err = c.sacct(stdout)
		}
	}

	if err != nil {
		fmt.Fprintf(stderr, "%s: error: %v\n", name, err)
		return 1
	}

	return 0
}

// slurmTask is one element of an array.
type slurmTask struct {
	Array   string   `json:"array"`
	Index   int      `json:"index"`
	State   string   `json:"state"`
	Reason  string   `json:"reason"`
	Script  string   `json:"script"`
	Args    []string `json:"args"`
	Out     string   `json:"out"`
	Err     string   `json:"err"`
	Most    int      `json:"most"` // of the array that run at the same time; 0: all
	Node    string   `json:"node"`
	PID     int      `json:"pid"`
	Restart int      `json:"restart"`
	Exit    string   `json:"exit"`
}

func (t *slurmTask) id() string   { return fmt.Sprintf("%s_%d", t.Array, t.Index) }
func (t *slurmTask) active() bool { return t.State == "PENDING" || t.State == "RUNNING" }

// fakeSlurm replaces a cluster in tests. It implements the parts of sbatch, squeue, scontrol,
// scancel and sacct that executors use, with jobs that are local processes. It supports arrays, limits
// on their parallel tasks, requeues and cancellation.
//
// These environment variables control it:
//
//	SLURMTEST_DIR         folder of the state; .slurmtest by default
//	SLURMTEST_REASON      no task starts, for this reason
//	SLURMTEST_REFUSE      sbatch refuses with this message
//	SLURMTEST_LATE        a file: the next sbatch removes it, takes the job and fails with a timeout
//	SLURMTEST_DOWN        a file: all commands fail while it exists
//	SLURMTEST_ACCOUNTING  sacct reports this state for tasks that failed
type fakeSlurm struct{ dir string }

func openFakeSlurm() (*fakeSlurm, error) {
	dir, err := filepath.Abs(cmp.Or(os.Getenv("SLURMTEST_DIR"), ".slurmtest"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(os.Getenv("SLURMTEST_DOWN")); err == nil {
		return nil, errors.New("Unable to contact slurm controller (connect failure)")
	}
	return &fakeSlurm{dir}, os.MkdirAll(filepath.Join(dir, "tasks"), 0o755)
}

// locked calls do with the cluster's lock.
func (c *fakeSlurm) locked(do func() error) error {
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

func (c *fakeSlurm) path(id string) string { return filepath.Join(c.dir, "tasks", id+".json") }

func (c *fakeSlurm) write(t *slurmTask) error {
	raw, err := json.Marshal(t)
	if err != nil {
		return err
	}
	tmp := c.path(t.id()) + ".tmp"
	if err := os.WriteFile(tmp, raw, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, c.path(t.id()))
}

// read returns the tasks whose files match a pattern.
func (c *fakeSlurm) read(pattern string) ([]*slurmTask, error) {
	files, err := filepath.Glob(c.path(pattern))
	if err != nil {
		return nil, err
	}

	var out []*slurmTask
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		t := &slurmTask{}
		if err := json.Unmarshal(raw, t); err != nil {
			return nil, err
		}
		out = append(out, t)
	}

	slices.SortFunc(out, func(a, b *slurmTask) int { return a.Index - b.Index })
	return out, nil
}

func (c *fakeSlurm) squeue(stdout io.Writer) error {
	tasks, err := c.read("*")
	for _, t := range tasks {
		if t.active() {
			fmt.Fprintf(stdout, "%s|%d|%s|%s\n", t.Array, t.Index, t.State, t.Reason)
		}
	}
	return err
}

// sacct prints all tasks in the format of --parsable2.
func (c *fakeSlurm) sacct(stdout io.Writer) error {
	failed := os.Getenv("SLURMTEST_ACCOUNTING")
	if failed == "" {
		return errors.New("Slurm accounting storage is disabled")
	}

	tasks, err := c.read("*")
	for _, t := range tasks {
		state := t.State
		if state == "FAILED" {
			state = failed
		}
		fmt.Fprintf(stdout, "%s|%s|%s|%s\n", t.id(), state, t.Exit, t.Node)
	}

	return err
}

// end removes a task or a whole array from the queue and signals its processes.
func (c *fakeSlurm) end(id, state string) error {
	if !strings.Contains(id, "_") {
		id += "_*"
	}

	return c.locked(func() error {
		tasks, err := c.read(id)
		if err != nil {
			return err
		}

		for _, t := range tasks {
			if !t.active() || state == "REQUEUED" && t.State == "PENDING" {
				continue
			}

			pid := t.PID
			t.State = state
			if err := c.write(t); err != nil {
				return err
			}

			if pid > 0 {
				_ = syscall.Kill(-pid, syscall.SIGTERM) // it may have ended by itself
			}
		}

		return nil
	})
}

// slurmServe is the argument for the sbatch process that runs the tasks of an array.
const slurmServe = "serve"

var slurmHeader = regexp.MustCompile(`(?m)^#SBATCH -([poe]) (.*)$`)

func (c *fakeSlurm) sbatch(args []string, stdout io.Writer) error {
	if args[0] == slurmServe {
		return c.serve(args[1])
	}
	if why := os.Getenv("SLURMTEST_REFUSE"); why != "" {
		return errors.New("Batch job submission failed: " + why)
	}

	array := ""
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		if text, ok := strings.CutPrefix(args[0], "--array="); ok {
			array = text
		}
		args = args[1:]
	}

	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}

	opts := map[string]string{}
	for _, m := range slurmHeader.FindAllStringSubmatch(string(text), -1) {
		opts[m[1]] = strings.Trim(m[2], `"`)
	}

	if opts["p"] == "nowhere" {
		return errors.New("Batch job submission failed: Invalid partition name specified")
	}

	id, err := c.take(array, text, args[1:], opts)
	if err != nil {
		return err
	}

	self, err := os.Executable()
	if err != nil {
		return err
	}

	cmd := exec.Command(self, slurmServe, id)
	cmd.Args[0] = "sbatch"
	cmd.Env = append(os.Environ(), "SLURMTEST_DIR="+c.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // jobs outlive the session
	if err := cmd.Start(); err != nil {
		return err
	}

	if late := os.Getenv("SLURMTEST_LATE"); late != "" && os.Remove(late) == nil {
		return errors.New("Batch job submission failed: Socket timed out on send/recv operation")
	}

	fmt.Fprintln(stdout, id)
	return nil
}

// take adds the tasks of an array such as 0-3,7%2 to the queue.
func (c *fakeSlurm) take(array string, script []byte, args []string, opts map[string]string) (id string, err error) {
	list, limit, _ := strings.Cut(array, "%")
	most, _ := strconv.Atoi(limit) // 0 if there is no limit
	err = c.locked(func() error {
		raw, _ := os.ReadFile(filepath.Join(c.dir, "last"))
		n, _ := strconv.Atoi(string(raw)) // 0 if the file does not exist
		id = strconv.Itoa(n + 1)
		copied := filepath.Join(c.dir, "script-"+id) // sbatch also copies the script
		// This process starts nothing meanwhile that could inherit the open script.
		err := errors.Join(os.WriteFile(filepath.Join(c.dir, "last"), []byte(id), 0o644), os.WriteFile(copied, script, 0o644),
			os.Chmod(copied, 0o755))
		if err != nil {
			return err
		}

		for part := range strings.SplitSeq(list, ",") {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}

			a, err1 := strconv.Atoi(from)
			b, err2 := strconv.Atoi(to)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}

			for i := a; i <= b; i++ {
				fill := strings.NewReplacer("%A", id, "%a", strconv.Itoa(i), "%%", "%")
				t := &slurmTask{
					Array: id, Index: i, State: "PENDING", Reason: "None", Script: copied, Args: args,
					Out: fill.Replace(opts["o"]), Err: fill.Replace(opts["e"]), Most: most,
				}
				if err := c.write(t); err != nil {
					return err
				}
			}
		}

		return nil
	})

	return id, err
}

// slurmNodes is the number of nodes; each runs one task at a time.
const slurmNodes = 4

// slurmServe runs the tasks of an array until all have ended.
func (c *fakeSlurm) serve(array string) error {
	var busy [slurmNodes]bool
	ended := make(chan int)
	running := 0
	for {
		left := 0
		err := c.locked(func() error {
			tasks, err := c.read(array + "_*")
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

				if why := os.Getenv("SLURMTEST_REASON"); why != "" {
					t.Reason = why
					if err := c.write(t); err != nil {
						return err
					}
					continue
				}

				node := slices.Index(busy[:], false)
				if node < 0 || t.Most > 0 && running >= t.Most {
					continue
				}

				if err := c.start(t, node, ended); err != nil {
					return err
				}

				busy[node] = true
				running++
			}

			return nil
		})

		if err != nil || left == 0 && running == 0 {
			return err
		}

		select {
		case node := <-ended:
			busy[node] = false
			running--
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// start runs a task on a node. The caller has the lock.
func (c *fakeSlurm) start(t *slurmTask, node int, ended chan<- int) error {
	cmd := exec.Command(t.Script, t.Args...)
	for path, to := range map[string]*io.Writer{t.Out: &cmd.Stdout, t.Err: &cmd.Stderr} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		*to = f
	}

	t.State, t.Reason, t.Node = "RUNNING", "None", "n"+strconv.Itoa(node)
	cmd.Env = append(os.Environ(), "SLURM_ARRAY_JOB_ID="+t.Array, "SLURM_ARRAY_TASK_ID="+strconv.Itoa(t.Index),
		"SLURM_JOB_ID="+t.Array, "SLURMD_NODENAME="+t.Node, "SLURM_RESTART_COUNT="+strconv.Itoa(t.Restart))

	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}

	t.PID = cmd.Process.Pid
	if err := c.write(t); err != nil {
		return err
	}

	go func() {
		err := cmd.Wait()
		_ = c.locked(func() error { return c.over(t.id(), err) })
		ended <- node
	}()

	return nil
}

// over records the end of a task. The caller has the lock.
func (c *fakeSlurm) over(id string, err error) error {
	tasks, rerr := c.read(id)
	if rerr != nil || len(tasks) != 1 {
		return rerr
	}

	t := tasks[0]
	t.PID = 0

	switch {
	case t.State == "REQUEUED":
		t.State, t.Reason = "PENDING", "None"
		t.Restart++
	case t.State == "CANCELLED":
	case err == nil:
		t.State, t.Exit = "COMPLETED", "0:0"
	default:
		t.State, t.Exit = "FAILED", "1:0"
	}

	return c.write(t)
}
