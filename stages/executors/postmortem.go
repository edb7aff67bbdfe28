package executors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// why says why a task that is in no queue has cases left; over is false while
// what it wrote may still be on its way through the file system.
func (f *Follower) why(ctx context.Context, i, left int, now time.Time) (why string, over bool) {
	s := &f.shards[i]
	b := f.batches[s.batch]
	patient := now.Sub(s.gone) < f.Config.Settle
	if st := s.said; st != nil && st.State.Ended() && st.Attempt >= b.Number*restarts {
		if st.Left < left && patient {
			return "", false // its rows are not all here
		}
		s.node = st.Node
		return st.ending(), true
	}
	id := fmt.Sprintf("%s_%d", b.Job, i-b.Offset)
	known := f.Scheduler.describe(ctx, id)
	if state := known["JobState"]; state == "" || state == "CANCELLED" {
		// The accounting remembers longer, and who has cancelled it.
		if a := f.accounted(ctx, id); a != nil && (state == "" || a["JobState"] == state) {
			known = a
		}
	}
	state := known["JobState"]
	switch {
	case state == "" && patient, state == "COMPLETED" && patient, state == "PENDING" || state == "RUNNING" || state == "COMPLETING" || state == "CONFIGURING":
		return "", false
	case state == "CANCELLED" || state == "NODE_FAIL" || state == "FAILED" || state == "TIMEOUT" || state == "OUT_OF_MEMORY" || state == "BOOT_FAIL" || state == "DEADLINE" || state == "PREEMPTED":
		if s.said != nil && patient && now.Sub(s.gone) < min(f.Config.Settle, 2*time.Second) {
			return "", false
		}
	}
	s.node = known["NodeList"]
	return f.post(i, id, known), true
}

// ending is how a task says that it ended.
func (s *Status) ending() string {
	text := s.Message
	switch {
	case text != "":
	case s.State == Drained:
		text = "its time was over"
	default:
		text = "it ended"
	}
	return fmt.Sprintf("%s (on %s)", text, s.Node)
}

// launchFailed is the exit code of a job whose script was never begun.
const launchFailed = "0:53"

// post says how a job died that left no word.
func (f *Follower) post(i int, id string, known map[string]string) string {
	on := ""
	if n := known["NodeList"]; n != "" && n != "(null)" {
		on = " on " + n
	}
	text := "Slurm has forgotten how its job ended"
	switch state := known["JobState"]; state {
	case "":
	case "NODE_FAIL":
		text = "the node was lost" + on
	case "CANCELLED":
		text = "it was cancelled" + byWhom(known["By"]) + on
		if known["Reason"] == "DependencyNeverSatisfied" || strings.Contains(known["Dependency"], "unfulfilled") || strings.Contains(known["Dependency"], "failed") {
			text = "it was cancelled because the task that it waited for failed"
		}
	case "TIMEOUT":
		text = "it was over its time limit and did not end when it was asked to" + on + "; drain says how long before"
	case "OUT_OF_MEMORY":
		text = "it ran out of memory" + on + "; memory asks for more"
	case "FAILED":
		text = fmt.Sprintf("it failed%s (exit code %s, %s)", on, known["ExitCode"], known["Reason"])
		if known["ExitCode"] == launchFailed {
			text += ": Slurm could not start it; the usual cause is a folder for its output that is not there on the node: " + filepath.Dir(known["StdOut"])
		}
	default:
		text = "Slurm says " + state + on
	}
	if tail := f.tail(i, id); tail != "" {
		text += "; the end of its output: " + tail
	}
	return text
}

// tail is the end of what a job wrote to its log.
func (f *Follower) tail(i int, id string) string {
	array, index, _ := strings.Cut(id, "_")
	name := fileName(f.Config.Title(f.Order.Stage)) + "_" + array + "_" + index
	for _, ext := range []string{".err", ".out"} {
		raw, err := os.ReadFile(filepath.Join(f.Order.LogDir(f.Config), name+ext))
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(raw[max(0, len(raw)-2000):])), "\n")
		return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-2):], " / "))
	}
	return ""
}
