package executors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/sink/command"
)

// Scheduler are the commands of Slurm that are used: sbatch, squeue, scontrol
// and scancel. The accounting (sacct) is asked only what became of jobs that
// these have forgotten.
type Scheduler struct {
	// Timeout bounds each command; 0 means a minute.
	Timeout time.Duration
	// Set are options of sbatch that the executor's block says: variables of the
	// environment that say them otherwise do not count.
	Set []string
	// asked is true once most, MaxArraySize, is known.
	asked bool
	most  int
	// unaccounted is true where there is no accounting.
	unaccounted bool
	listed      int // jobs of the user when the queue was last read, arrays or not
}

// Job is one task of an array that Slurm has not forgotten.
type Job struct {
	Array   string // id of the array
	Index   int
	State   string // PENDING, RUNNING, ...
	Reason  string // why it waits
	Comment string
}

// ID is the task as scancel and scontrol take it.
func (j Job) ID() string { return fmt.Sprintf("%s_%d", j.Array, j.Index) }

// run starts a command and returns its output; an error has what it said.
func (s *Scheduler) run(ctx context.Context, name string, args ...string) (string, error) {
	limit := s.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environment(os.Environ(), s.Set)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	// A site's own sbatch may leave something behind that keeps its output open: the
	// job is submitted all the same.
	err := command.Run(cmd, time.Second)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("there is no %s here: run aicplan on a login node of the cluster, or load the module that has Slurm's commands (%w)", name, exec.ErrNotFound)
	case err != nil && ctx.Err() == context.DeadlineExceeded:
		return "", &busyError{fmt.Sprintf("%s did not answer within %s", name, limit)}
	case err != nil:
		text := complaint(name, said.String())
		if text == "" {
			text = err.Error()
		}
		if slices.ContainsFunc(passing, func(p string) bool { return strings.Contains(text, p) }) {
			return "", &busyError{name + ": " + text}
		}
		return "", fmt.Errorf("%s: %s", name, text)
	}
	return out.String(), nil
}

// complaint is what a command of Slurm said, without its own name in front of
// every line.
func complaint(name, said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(line, name+":"))
		line = strings.TrimSpace(strings.TrimPrefix(line, "error:"))
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}

// busyError is that of a scheduler that does not answer now, and may later.
type busyError struct{ text string }

func (e *busyError) Error() string { return e.text }

// passing are what commands say then.
var passing = []string{
	"Unable to contact slurm controller", "Socket timed out", "Connection refused", "Zero Bytes were transmitted", "Transport endpoint",
	"Slurm temporarily unable to accept job", "Slurm backup controller in standby mode", "Resource temporarily unavailable",
}

// submitLimit is said of more jobs than a user may have at a time.
const submitLimit = "Job violates accounting/QOS policy (job submit limit"

// advice says which attribute a refusal of sbatch is about.
var advice = []struct{ said, attribute string }{
	{"Invalid feature specification", "constraint names a feature that no node has"},
	{"Invalid partition name", "partition names none of the cluster; sinfo lists them"},
	{"Invalid account", "account is not known, or not allowed in the partition"},
	{"Invalid qos", "qos is not known, or not allowed for the account"},
	{"Invalid generic resource", "gpus_per_node: the nodes have no GPUs that Slurm knows of"},
	{"Requested node configuration is not available", "no node has what gpus_per_node, cpus_per_task, tasks_per_node and memory ask for"},
	{"Requested time limit is invalid", "time is longer than the partition allows"},
	{"Memory required by task is not available", "memory is more than a node has"},
	{"Invalid job array specification", "tasks is more than an array may have"},
	{"Job violates accounting/QOS policy", "account, qos, tasks and time: one of them is beyond what you may have"},
	{"Access/permission denied", "you may not submit jobs there"},
	{"Node count specification invalid", "nodes is more than the partition has"},
}

// refusal adds to what sbatch said which attribute it is about.
func refusal(err error) error {
	for _, a := range advice {
		if strings.Contains(err.Error(), a.said) {
			return fmt.Errorf("%w: %s", err, a.attribute)
		}
	}
	return err
}

// submission is one call of sbatch.
type submission struct {
	script  string
	indices []int  // of the array
	most    int    // that may run at the same time; 0: all
	after   string // a job that must succeed first
	comment string
	exclude string   // nodes that it is not to run on
	args    []string // of the script
}

var jobID = regexp.MustCompile(`^\d+$`)

// submit hands an array to Slurm and returns its id.
func (s *Scheduler) submit(ctx context.Context, sub submission) (string, error) {
	array := ranges(sub.indices)
	if sub.most > 0 && sub.most < len(sub.indices) {
		array += "%" + strconv.Itoa(sub.most)
	}
	args := []string{"--parsable", "--array=" + array, "--comment=" + sub.comment}
	if sub.after != "" {
		// A task whose condition can never come true would wait for ever.
		args = append(args, "--dependency=afterok:"+sub.after, "--kill-on-invalid-dep=yes")
	}
	if sub.exclude != "" {
		args = append(args, "--exclude="+sub.exclude)
	}
	out, err := s.run(ctx, "sbatch", append(append(args, sub.script), sub.args...)...)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	id, _, _ := strings.Cut(lines[len(lines)-1], ";") // ID;CLUSTER
	if !jobID.MatchString(id) {
		return "", fmt.Errorf("sbatch answered %q instead of the number of a job", strings.TrimSpace(out))
	}
	return id, nil
}

// queue lists the user's jobs that wait or run.
func (s *Scheduler) queue(ctx context.Context) ([]Job, error) {
	// By number: a user of a directory service may have no name here.
	me := strconv.Itoa(os.Getuid())
	// The format is the same in all versions, other than that of --json. The
	// comment is last: it may hold anything.
	out, err := s.run(ctx, "squeue", "--noheader", "--array", "--user="+me, "--format=%F|%K|%T|%r|%k")
	if err != nil {
		return nil, err
	}
	var jobs []Job
	s.listed = strings.Count(out, "\n")
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "|", 5)
		if len(f) < 5 {
			continue
		}
		index, err := strconv.Atoi(strings.TrimSpace(f[1]))
		if err != nil {
			continue // no array
		}
		jobs = append(jobs, Job{Array: strings.TrimSpace(f[0]), Index: index, State: strings.TrimSpace(f[2]), Reason: strings.TrimSpace(f[3]), Comment: f[4]})
	}
	return jobs, nil
}

// describe is what Slurm knows of the tasks of an array, by their ids, as long as
// it does. All are asked for at once: of a thousand that die together each would
// cost the controller a question.
func (s *Scheduler) describe(ctx context.Context, array string) map[string]map[string]string {
	out, err := s.run(ctx, "scontrol", "--oneliner", "show", "job", array)
	if err != nil {
		return nil
	}
	all := map[string]map[string]string{}
	for line := range strings.Lines(out) {
		known := map[string]string{}
		for _, word := range strings.Fields(line) {
			if name, value, ok := strings.Cut(word, "="); ok {
				known[name] = value
			}
		}
		// Tasks that did not start are one record.
		for _, index := range indicesOf(known["ArrayTaskId"]) {
			all[fmt.Sprintf("%s_%d", array, index)] = known
		}
	}
	return all
}

// indicesOf reads what Slurm says of the indices of an array: 3 or 0-4,7-11:2%8.
func indicesOf(text string) (out []int) {
	text, _, _ = strings.Cut(text, "%")
	for part := range strings.SplitSeq(text, ",") {
		part, step, stepped := strings.Cut(part, ":")
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		by := 1
		if stepped {
			by, _ = strconv.Atoi(step)
		}
		if err1 != nil || err2 != nil || a < 0 || b > mostIndices || by < 1 {
			continue
		}
		for i := a; i <= b; i += by {
			out = append(out, i)
		}
	}
	return out
}

// mostIndices is beyond what Slurm can be set up for.
const mostIndices = 1 << 22

// cancel ends jobs, running or not.
func (s *Scheduler) cancel(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := s.run(ctx, "scancel", ids...)
	return err
}

// hurry lets a requeued task start now: Slurm holds it back for two minutes.
func (s *Scheduler) hurry(ctx context.Context, id string) error {
	_, err := s.run(ctx, "scontrol", "update", "JobId="+id, "StartTime=now")
	return err
}

var maxArraySize = regexp.MustCompile(`(?m)^MaxArraySize\s*=\s*(\d+)`)

// defaultArraySize is Slurm's.
const defaultArraySize = 1001

// arraySize is the number of indices that an array may have, from 0. It is 0 where
// the cluster has no job arrays.
func (s *Scheduler) arraySize(ctx context.Context) int {
	if s.asked {
		return s.most
	}
	s.asked, s.most = true, defaultArraySize
	if out, err := s.run(ctx, "scontrol", "show", "config"); err == nil {
		if m := maxArraySize.FindStringSubmatch(out); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				s.most = n
			}
		}
	}
	return s.most
}

// ranges writes ascending numbers as Slurm takes them: 0-3,7.
func ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		} else {
			parts = append(parts, strconv.Itoa(n[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}
