package executors

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/base/textutil"
)

// shardState is the state of a shard from the coordinator's point of view:
//
//	pending -> queued <-> running -> lost -> pending (submitted again)
//	                                      -> failed
//
// Every state becomes done once all cases of the shard have a result.
type shardState int

const (
	pending shardState = iota // to be submitted
	queued                    // in Slurm's queue
	running
	lost   // not in the queue, and its end is not known yet
	done   // every case has a result
	failed // given up
)

// shard is the coordinator's state of one shard.
type shard struct {
	state     shardState
	array     int       // index of its last submission in arrays; -1 if never submitted
	left      int       // cases without a result at its last submission
	fruitless int       // consecutive submissions without a new row
	gone      time.Time // when it became lost
	status    *Status
	why       string // reason of a failure
	grown     Grown  // of its next submission
}

// patience is the number of polls for which rows and the status of an ended job may be missing, because a
// shared file system shows them later than the queue shows the end.
const patience = 12

// next returns the state that follows from the queue and from the remaining cases. job is the shard's task in
// the queue, or nil. A final status is ignored if it belongs to an earlier submission.
func (s *shard) next(job *Job, left int) (state shardState, why string) {
	switch {
	case left == 0:
		return done, ""
	case job == nil:
		return lost, ""
	case !job.waits():
		return running, ""
	case job.never():
		return failed, "it cannot start: Slurm gives the reason " + job.Reason
	}
	return queued, ""
}

// ended reports whether a lost shard has ended. why is the reason from its own status; it is "" if there is
// none, and the accounting is asked if ask is true.
func (s *shard) ended(left int, away, poll time.Duration) (ok bool, why string, ask bool) {
	st := s.status
	if st != nil && (!st.State.Ended() || st.Attempt < s.array*restarts) {
		st = nil // of an earlier try
	}

	late := away >= patience*poll
	switch {
	case st == nil:
		return late, "", true
	case !late && st.Left < left:
		return false, "", false // its rows are not visible yet
	case st.State == Drained:
		// The accounting reports later whether a time limit, a cancellation or a preemption ended the task.
		return late || away >= 2*poll, st.ending(), true
	}
	return true, st.ending(), false
}

// update updates the state of every shard. It returns the reason if the ramp of a task did not pass, and ""
// otherwise.
func (f *Follower) update(ctx context.Context, jobs []Job) (stopped string) {
	inQueue := map[string]*Job{}
	for i := range jobs {
		inQueue[jobs[i].ID()] = &jobs[i]
	}

	var cancel, ask []string
	ended := map[int]string{} // reason by shard
	stuck, waiting := byReason{}, byReason{}
	working := 0

	for i := range f.shards {
		s := &f.shards[i]
		if s.state == pending || s.state >= done {
			continue
		}

		was, left, job := s.state, f.Work.Left(i), inQueue[f.id(i)]
		s.state, s.why = s.next(job, left)
		if job != nil && (s.state == failed || s.state == done && job.waits()) {
			cancel = append(cancel, f.id(i)) // a requeued job whose rows have arrived has nothing to do
		}

		switch s.state {
		case failed:
			stuck.add(s.why, i)
		case queued:
			waiting.add(job.Reason, i)
		case running:
			working++
		case lost:
			working++
			if was != lost {
				s.gone = time.Now()
			}
			if s.status != nil && s.status.State == Stopped {
				return s.status.Message
			}
			if ok, why, asks := s.ended(left, time.Since(s.gone), f.Config.Poll); ok {
				ended[i] = why
				if asks {
					ask = append(ask, f.id(i))
				}
			}
		}
	}

	f.warn("tasks cannot be cancelled", scancel(ctx, cancel...))
	f.conclude(ended, sacct(ctx, ask), stuck)
	f.show(working, waiting)
	return ""
}

// conclude decides which of the shards that have ended with cases left are submitted again. ended has the
// reason by shard, endings what the accounting reports by job, stuck the shards that were given up already.
func (f *Follower) conclude(ended map[int]string, endings map[string]string, stuck byReason) {
	again := byReason{}
	for _, i := range slices.Sorted(maps.Keys(ended)) {
		s, why, ending := &f.shards[i], ended[i], endings[f.id(i)]
		switch {
		case why == "":
			why = f.postMortem(i, ending)
		case ending != "":
			why = ending
		}

		rows := f.Work.Left(i) < s.left
		if s.fruitless++; rows {
			s.fruitless = 0
		}

		more := f.Config.growth(ending, rows)
		s.grown.Time, s.grown.Memory = s.grown.Time+more.Time, s.grown.Memory+more.Memory

		switch {
		case strings.Contains(why, "CANCELLED"):
			s.state, s.why = failed, why+"; it is not submitted again"
			stuck.add(s.why, i)
		case s.fruitless >= f.Config.Attempts:
			tries := textutil.Some(s.fruitless, "submission")
			s.state, s.why = failed, fmt.Sprintf("%s; %s without a new row", why, tries)
			stuck.add(s.why, i)
		default:
			s.state = pending
			job := f.Config.grown(s.grown)
			switch {
			case more.Time > 0:
				why += ", with a time limit of " + job.Limit.String()
			case more.Memory > 0:
				why += ", with " + job.Memory + " of memory"
			}
			again.add(why, i)
		}
	}

	stuck.each(func(why string, shards []int) {
		f.Work.Say("error", "%s: given up: %s", tasks(shards), why)
	})
	again.each(func(why string, shards []int) {
		f.Work.Say("warn", "%s: submitted again: %s", tasks(shards), why)
	})
}

// id returns the id of the array task of a shard's last submission.
func (f *Follower) id(shard int) string {
	a := f.arrays[f.shards[shard].array]
	return Job{Array: a.Job, Index: shard - a.Offset}.ID()
}

// show reports how many tasks run and wait.
func (f *Follower) show(running int, waiting byReason) {
	var parts []string
	if running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}

	waiting.each(func(reason string, shards []int) {
		if reason == "" || reason == "None" {
			reason = "not scheduled yet"
		} else if name, _, _ := strings.Cut(reason, ","); !f.reasons[name] {
			f.reasons[name] = true
			f.Work.Say("info", "%s: waiting, Slurm gives the reason %s", tasks(shards), reason)
		}
		parts = append(parts, fmt.Sprintf("%d waiting (%s)", len(shards), reason))
	})

	if len(parts) > 0 {
		f.Work.Waiting("tasks: " + strings.Join(parts, ", "))
	}
}

// ending describes the end of a task from its own status.
func (s *Status) ending() string {
	if s.Message != "" {
		return fmt.Sprintf("%s (on %s)", s.Message, s.Node)
	}
	return fmt.Sprintf("%s (on %s)", s.State, s.Node)
}

// postMortem describes the end of a task without a final status, from the accounting and the last lines of
// its log.
func (f *Follower) postMortem(shard int, ending string) string {
	if ending == "" {
		ending = "its job ended without a result"
	}

	array, index, _ := strings.Cut(f.id(shard), "_")
	name := fileName(f.Config.Title(f.Order.Stage)) + "_" + array + "_" + index
	for _, ext := range []string{".err", ".out"} {
		raw, err := lastBytes(filepath.Join(f.Script.LogDir, name+ext))
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(raw), "?")), "\n")
		return ending + "; the end of its output: " + strings.Join(lines[max(0, len(lines)-2):], " / ")
	}

	return ending
}

// lastBytes reads at most 2000 bytes from the end of a file.
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

// byReason groups shards by a reason.
type byReason map[string][]int

func (b byReason) add(reason string, shard int) { b[reason] = append(b[reason], shard) }

func (b byReason) each(do func(reason string, shards []int)) {
	for _, reason := range slices.Sorted(maps.Keys(b)) {
		do(reason, b[reason])
	}
}

// tasks formats shards as "task 3" or "tasks 0-2,7".
func tasks(shards []int) string {
	if len(shards) == 1 {
		return "task " + ranges(shards)
	}
	return "tasks " + ranges(shards)
}
