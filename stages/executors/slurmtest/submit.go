package slurmtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// controller is the argument with which sbatch is the cluster's side of a job.
const controller = "control"

var header = regexp.MustCompile(`(?m)^#SBATCH (?:-(\w) |--([a-z-]+)=?)(.*)$`)

func (c *cluster) sbatch(args []string, stdout io.Writer) error {
	if len(args) == 1 && args[0] == controller {
		return c.control(os.Stdin, stdout)
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
	id, err := c.hand(&job{Text: text, Args: rest[1:], Options: opts, Indices: indices, Most: most})
	if err != nil {
		return err
	}
	if late := os.Getenv("SLURMTEST_LATE"); late != "" && os.Remove(late) == nil {
		//lint:ignore ST1005 Slurm words it so
		return errors.New("Batch job submission failed: Socket timed out on send/recv operation")
	}
	fmt.Fprintln(stdout, id)
	return nil
}

// job is what sbatch hands to the controller.
type job struct {
	Text    []byte            `json:"text"`
	Args    []string          `json:"args"`
	Options map[string]string `json:"options"`
	Indices []int             `json:"indices"`
	Most    int               `json:"most"`
}

// answer is what the controller says of it.
type answer struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// hand gives a job to a controller of its own, which is no child of this session: as
// with Slurm, the cluster has all of a job or nothing of it, at whatever moment
// sbatch is killed.
func (c *cluster) hand(j *job) (id string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(self, controller)
	cmd.Args[0] = "sbatch"
	cmd.Env = append(os.Environ(), "SLURMTEST_DIR="+c.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if err := errors.Join(json.NewEncoder(in).Encode(j), in.Close()); err != nil {
		return "", err
	}
	var a answer
	if err := json.NewDecoder(out).Decode(&a); err != nil {
		return "", fmt.Errorf("the controller's answer: %w", err)
	}
	if a.Error != "" {
		return "", errors.New(a.Error)
	}
	return a.ID, nil
}

// control takes a job from sbatch, answers, and serves it.
func (c *cluster) control(from io.Reader, to io.Writer) error {
	j := &job{}
	if err := json.NewDecoder(from).Decode(j); err != nil {
		return err // sbatch was killed
	}
	a := answer{}
	var err error
	if a.ID, err = c.take(j); err != nil {
		a.Error = err.Error()
	}
	// Where sbatch was killed meanwhile nobody hears it, and the job is there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	_ = json.NewEncoder(to).Encode(a)
	if err != nil || os.Getenv("SLURMTEST_HOLD") != "" {
		return err
	}
	return c.serve(a.ID)
}

// take puts the tasks of a job into the queue.
func (c *cluster) take(j *job) (id string, err error) {
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
			if active+len(j.Indices) > most {
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
		if err := os.WriteFile(copied, j.Text, 0o755); err != nil {
			return err
		}
		opts := j.Options
		for _, i := range j.Indices {
			fill := strings.NewReplacer("%A", id, "%a", strconv.Itoa(i), "%j", id)
			t := &task{
				Array: id, Index: i, State: "PENDING", Reason: "None", Comment: opts["comment"], Name: opts["job-name"], Script: copied, Args: j.Args,
				Out: fill.Replace(opts["output"]), Err: fill.Replace(opts["error"]), After: strings.TrimPrefix(opts["dependency"], "afterok:"), Most: j.Most, Exclude: opts["exclude"],
			}
			if err := c.write(t); err != nil {
				return err
			}
		}
		return nil
	})
	return id, err
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
