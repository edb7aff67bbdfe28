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

	"aicplan/sink/base/proc"
)

// Limits of Slurm's commands.
const (
	commandTimeout    = time.Minute
	accountingTimeout = 15 * time.Second
)

// Job is an array task in the queue.
type Job struct {
	Array  string // id of the array
	Index  int
	State  string // PENDING, RUNNING, ...
	Reason string // why it is pending
}

// ID returns the id of the task for scancel and scontrol.
func (j Job) ID() string { return fmt.Sprintf("%s_%d", j.Array, j.Index) }

// waits reports whether the job has not started or will be started again.
func (j Job) waits() bool {
	return slices.Contains([]string{"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}, j.State)
}

// never reports whether the job can only start with other options.
func (j Job) never() bool {
	switch j.Reason {
	case "PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig", "BadConstraints", "InvalidAccount",
		"AccountNotAllowed",
		"InvalidQOS", "QOSNotAllowed", "ReservationDeleted", "MaxMemPerLimit", "JobHoldMaxRequeue",
		"launch failed requeued held":
		return true
	}
	return strings.HasPrefix(j.Reason, "QOSMax") && strings.Contains(j.Reason, "PerJob")
}

// temporary is an error of a command that may succeed later.
type temporary struct{ text string }

func (e *temporary) Error() string { return e.text }

// passing lists substrings of messages of temporary errors.
var passing = []string{
	"Unable to contact slurm controller", "Socket timed out", "Connection refused", "Zero Bytes were transmitted",
	"Transport endpoint",
	"Slurm temporarily unable to accept job", "Slurm backup controller in standby mode",
	"Resource temporarily unavailable",
}

// run executes a command and returns its output. An error contains the command's messages. It is a
// *temporary if a later call may succeed.
func run(ctx context.Context, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = ownEnvironment(os.Environ())
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	// A site's sbatch wrapper may start a process that keeps the output open. The job is submitted
	// nevertheless.
	err := proc.Run(cmd)

	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%s is not installed here: run aicplan on a login node of the cluster, "+
			"or load the module with Slurm's commands (%w)", name, err)

	case err != nil && ctx.Err() == context.DeadlineExceeded:
		return "", &temporary{fmt.Sprintf("%s did not answer within %s", name, limit)}

	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s: %w", name, ctx.Err())

	case err != nil:
		text := strings.Join(strings.Fields(messages.String()), " ")
		if text == "" {
			text = name + ": " + err.Error()
		}
		if slices.ContainsFunc(passing, func(p string) bool { return strings.Contains(text, p) }) {
			return "", &temporary{text}
		}
		return "", errors.New(text)
	}

	return out.String(), nil
}

var jobID = regexp.MustCompile(`^\d+$`)

// sbatch submits an array and returns its id. At most parallel tasks of it run at the same time; 0 means
// no limit.
func sbatch(ctx context.Context, script string, indices []int, parallel int,
	args ...string) (string, error) {
	array := ranges(indices)
	if parallel > 0 && parallel < len(indices) {
		array += "%" + strconv.Itoa(parallel)
	}

	out, err := run(ctx, commandTimeout, "sbatch", append([]string{"--parsable", "--array=" + array, script}, args...)...)
	if err != nil {
		return "", err
	}

	for _, line := range slices.Backward(strings.Split(out, "\n")) { // a site's wrapper may print other lines
		id, _, _ := strings.Cut(strings.TrimSpace(line), ";") // ID;CLUSTER
		if jobID.MatchString(id) {
			return id, nil
		}
	}

	return "", fmt.Errorf("sbatch printed %q instead of a job id", strings.TrimSpace(out))
}

// squeue returns the user's array tasks that are pending or running.
func squeue(ctx context.Context) ([]Job, error) {
	// Select by user id, because a directory service user may have no name here.
	out, err := run(ctx, commandTimeout, "squeue", "--noheader", "--array", "--user="+strconv.Itoa(os.Getuid()),
		"--format=%F|%K|%T|%r")
	if err != nil {
		return nil, err
	}

	var jobs []Job
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 4)
		if len(f) < 4 {
			continue
		}
		if index, err := strconv.Atoi(f[1]); err == nil { // other jobs are not array tasks
			jobs = append(jobs, Job{Array: f[0], Index: index, State: f[2], Reason: f[3]})
		}
	}

	return jobs, nil
}

// sacct returns how array tasks ended according to the accounting, by id. Tasks without a record are
// missing. If the cluster has no accounting, the result is empty.
func sacct(ctx context.Context, ids []string) map[string]string {
	out := map[string]string{}
	for part := range slices.Chunk(ids, 500) {
		text, err := run(ctx, accountingTimeout, "sacct", "--noheader", "--parsable2", "--allocations",
			"--jobs="+strings.Join(part, ","), "--format=JobID,State,ExitCode,NodeList")

		if err != nil {
			return out
		}

		for line := range strings.Lines(text) {
			f := strings.Split(strings.TrimSpace(line), "|")
			if len(f) < 4 || slices.Contains([]string{"PENDING", "RUNNING", "REQUEUED", "COMPLETED"}, f[1]) {
				continue
			}
			out[f[0]] = fmt.Sprintf("Slurm reports %s on %s (exit code %s)", f[1], f[3], f[2])
		}
	}

	return out
}

// scancel cancels jobs.
func scancel(ctx context.Context, ids ...string) error {
	for part := range slices.Chunk(ids, 500) { // the length of a command line is limited
		if _, err := run(ctx, commandTimeout, "scancel", part...); err != nil {
			return err
		}
	}
	return nil
}

// ranges formats ascending numbers in Slurm's notation, such as 0-3,7.
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

// ownEnvironment returns env without the variables that change what Slurm's
// commands do: SBATCH_* override the script, SQUEUE_* and the like hide jobs, and
// inside an allocation SLURM_* describe that allocation. Variables that select
// the cluster and the kind of MPI stay.
func ownEnvironment(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT", "SLURM_MPI_TYPE":
			out = append(out, kv)
			continue
		}

		if prefix, _, ok := strings.Cut(name, "_"); ok {
			switch prefix {
			case "SBATCH", "SLURM", "SLURMD", "SQUEUE", "SACCT", "SCANCEL", "SCONTROL":
				continue
			}
		}

		out = append(out, kv)
	}

	return out
}
