package executors

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// why says why a task that is in no queue has cases left; over is false while
// what it wrote may still be on its way through the file system.
func (f *Follower) why(ctx context.Context, i, left int, now time.Time) (why string, over bool) {
	s := &f.shards[i]
	b := f.batches[s.batch]
	id := fmt.Sprintf("%s_%d", b.Job, i-b.Offset)
	patient := now.Sub(s.gone) < f.Config.Settle
	s.state = ""
	if st := s.said; st != nil && st.State.Ended() && st.Attempt >= b.Number*restarts {
		if st.Left < left && patient {
			return "", false // its rows are not all here
		}
		s.node = st.Node
		if st.State != Drained || !st.Told {
			return st.ending(), true
		}
		// Who told it to end is for Slurm to say.
		known := f.known(ctx, b.Job, id)
		switch state := known["JobState"]; {
		case alive(state) && patient:
			return "", false
		case slices.Contains([]string{"CANCELLED", "PREEMPTED", "TIMEOUT", "DEADLINE", "NODE_FAIL"}, state):
			s.state = state
			return cause(known), true
		}
		return "it was told to end (SIGTERM), as scancel, preemption and a time limit do (on " + st.Node + ")", true
	}
	known := f.known(ctx, b.Job, id)
	state := known["JobState"]
	switch {
	case state == "" && patient, state == "COMPLETED" && patient, alive(state):
		return "", false
	case state != "" && state != "COMPLETED":
		if s.said != nil && patient && now.Sub(s.gone) < min(f.Config.Settle, 2*time.Second) {
			return "", false
		}
	}
	s.node, s.state = known["NodeList"], state
	return f.post(i, id, known), true
}

// known is what Slurm knows of a task that is in no queue, or the accounting, which
// remembers longer, and who has cancelled it.
func (f *Follower) known(ctx context.Context, array, id string) map[string]string {
	known := f.described(ctx, array, id)
	if state := known["JobState"]; state == "" || state == "CANCELLED" {
		if a := f.accounted(ctx, id); a != nil && (state == "" || a["JobState"] == state) {
			return a
		}
	}
	return known
}

// alive says whether Slurm takes a job in this state to go on.
func alive(state string) bool {
	return slices.Contains([]string{"RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}, state) || waits(state)
}

// waits says whether a job in this state will start, sooner or later.
func waits(state string) bool {
	return slices.Contains([]string{"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}, state)
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
	text := cause(known)
	if tail := f.tail(i, id); tail != "" {
		text += "; the end of its output: " + tail
	}
	return text
}

// cause is how Slurm, or the accounting, says that a job ended.
func cause(known map[string]string) string {
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
	case "PREEMPTED":
		text = "another job took its place" + on + " (preempted)"
	default:
		text = "Slurm says " + state + on
	}
	return text
}

// tail is the end of what a job wrote to its log.
func (f *Follower) tail(i int, id string) string {
	array, index, _ := strings.Cut(id, "_")
	name := fileName(f.Config.Title(f.Order.Stage)) + "_" + array + "_" + index
	for _, ext := range []string{".err", ".out"} {
		raw, err := lastBytes(filepath.Join(f.Order.LogDir(f.Config), name+ext))
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(raw), "?")), "\n")
		return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-2):], " / "))
	}
	return ""
}

// lastBytes reads the end of a file: the log of a job may be as long as its disk.
func lastBytes(path string) ([]byte, error) {
	const most = 2000
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-most), most))
}
