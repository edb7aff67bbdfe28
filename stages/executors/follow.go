package executors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

// Work is the collect whose shards are followed.
type Work interface {
	// Take is called with the statuses that changed since the last call and reads what the tasks have
	// stored. If it returns an error, Follow returns and the jobs continue.
	Take(changed []*Status) error
	// Left returns the number of cases of a shard without a result.
	Left(shard int) int
	// Waiting shows how many tasks run and wait.
	Waiting(text string)
	// Say shows a line to the user.
	Say(level, text string)
}

// Follower submits the shards of an order until each has a result or is given up.
type Follower struct {
	Config    *Config
	Order     *Order
	Scheduler *Scheduler
	Script    Script
	Work      Work
	// Stop makes Follow return when it is closed.
	Stop <-chan struct{}
	// CancelOnStop cancels the jobs when Stop is closed. Otherwise they continue.
	CancelOnStop bool

	arrays  []Array
	shards  []shard
	trouble string          // the last temporary error that was shown
	reasons map[string]bool // reasons for waiting that were shown
}

// shardState is the state of a shard from the coordinator's point of view.
type shardState int

const (
	open   shardState = iota // to be submitted or resubmitted
	queued                   // submitted, not seen running
	running
	lost   // not in the queue and without a final status, or with rows still arriving
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
}

// Outcome is the result of Follow.
type Outcome struct {
	// Lost are the shards that were given up, with the reason.
	Lost map[int]string
	// Stopped is the reason why the ramp did not pass, or "".
	Stopped string
	// Detached is true if Follow returned because of Stop. Jobs are the arrays that had not ended.
	Detached bool
	Jobs     []string
}

// Active returns the jobs of an order that wait or run.
func Active(ctx context.Context, s *Scheduler, o *Order) ([]Job, error) {
	arrays, err := o.arrays()
	if err != nil || len(arrays) == 0 {
		return nil, err
	}
	jobs, err := s.queue(ctx)
	return slices.DeleteFunc(jobs, func(j Job) bool {
		return !slices.ContainsFunc(arrays, func(a Array) bool { return a.Job == j.Array })
	}), err
}

// Follow returns when every shard is done or has failed, when the ramp of a task does not pass, or when
// Stop is closed. It continues with the arrays that an earlier process has submitted.
func (f *Follower) Follow(ctx context.Context) (*Outcome, error) {
	out := &Outcome{Lost: map[int]string{}}
	if err := f.load(); err != nil {
		return out, err
	}

	pause := min(f.Config.Poll, 200*time.Millisecond)

	for {
		jobs, err := f.Scheduler.queue(ctx)
		_, passes := errors.AsType[*temporary](err)
		if err != nil && len(f.arrays) == 0 && !passes && ctx.Err() == nil {
			return out, f.errorf("nothing was submitted: %w", err)
		}

		known := err == nil
		f.warn("the queue cannot be read and is read again", err)

		if err := f.take(); err != nil {
			return out, err
		}

		if known {
			out.Stopped = f.judge(ctx, jobs)
			if out.Stopped != "" {
				return out, f.Scheduler.cancel(context.WithoutCancel(ctx), f.live()...)
			}

			if err := f.submit(ctx, len(jobs)); err != nil {
				if out.Jobs = f.live(); len(out.Jobs) > 0 {
					ids := strings.Join(out.Jobs, " ")
					err = fmt.Errorf("%w; the jobs %s continue: the same command follows them, scancel %s ends them", err, ids, ids)
				}
				return out, err
			}
		}

		if f.complete(known) {
			for i, s := range f.shards {
				if s.state == failed {
					out.Lost[i] = s.why
				}
			}
			return out, nil
		}

		select {
		case <-f.Stop:
			out.Detached, out.Jobs = true, f.live()
			if f.CancelOnStop {
				return out, f.Scheduler.cancel(context.WithoutCancel(ctx), out.Jobs...)
			}
			return out, nil
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(pause):
			pause = min(pause*2, f.Config.Poll)
		}
	}
}

// load reads the arrays that an earlier process has submitted.
func (f *Follower) load() (err error) {
	if f.arrays, err = f.Order.arrays(); err != nil {
		return err
	}

	f.shards, f.reasons = make([]shard, len(f.Order.Shards)), map[string]bool{}
	for i := range f.shards {
		f.shards[i].array = -1
	}

	for n, a := range f.arrays {
		if a.Job == "" {
			continue
		}
		for _, i := range a.Shards {
			f.shards[i].state, f.shards[i].array, f.shards[i].left = queued, n, f.Work.Left(i)
		}
	}

	return nil
}

// complete reports whether no shard needs the queue any more. If the queue could not be read (known is
// false), it reports whether all cases have a result.
func (f *Follower) complete(known bool) bool {
	for i, s := range f.shards {
		if s.state < done && (known || s.array < 0 || f.Work.Left(i) > 0) {
			return false
		}
	}
	return true
}

// live returns the arrays of shards that wait or run.
func (f *Follower) live() (ids []string) {
	for _, s := range f.shards {
		if s.state != queued && s.state != running {
			continue
		}
		if id := f.arrays[s.array].Job; !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// take passes changed statuses to Work.
func (f *Follower) take() error {
	var changed []*Status
	for i := range f.shards {
		s := &f.shards[i]
		if s.state >= done || s.array < 0 {
			continue
		}
		st, err := f.Order.Status(i)
		if err != nil || st == nil || s.status != nil && st.Attempt == s.status.Attempt && st.Seen.Equal(s.status.Seen) {
			continue // a status that cannot be read now may be readable at the next poll
		}
		s.status = st
		changed = append(changed, st)
	}

	return f.Work.Take(changed)
}

// judge updates the state of every shard. It returns the reason if the ramp of a task did not pass, and
// "" otherwise.
func (f *Follower) judge(ctx context.Context, jobs []Job) (stopped string) {
	active := map[string]Job{}
	for _, j := range jobs {
		active[j.ID()] = j
	}

	now := time.Now()
	var cancel, ids []string // ids: ended tasks to look up in the accounting
	ended := map[int]string{}
	stuck, waiting := byReason{}, byReason{}
	working := 0

	for i := range f.shards {
		s := &f.shards[i]
		if s.state == open || s.state >= done {
			continue
		}

		left, id := f.Work.Left(i), f.id(i)
		job, listed := active[id]
		switch {
		case listed && job.waits():
			s.state, s.gone = queued, time.Time{}
			switch {
			case left == 0: // the rows of a killed try have arrived
				cancel, s.state = append(cancel, id), done
			case job.never():
				cancel, s.state, s.why = append(cancel, id), failed, "it cannot start: Slurm gives the reason "+job.Reason
				stuck.add(s.why, i)
			default:
				waiting.add(job.Reason, i)
			}

		case listed:
			s.state, s.gone = running, time.Time{}
			working++

		case left == 0:
			s.state = done

		default:
			if s.state != lost {
				s.state, s.gone = lost, now
			}

			// On a shared file system, rows and status may appear later than the end of the job in the
			// queue.
			away := now.Sub(s.gone)
			patient := away < 12*f.Config.Poll
			switch st := s.status; {
			case st != nil && st.State == Stopped:
				return st.Message

			case st != nil && st.State == Drained && st.Attempt >= s.array*restarts:
				// Wait for the accounting, which reports later whether a time limit, a cancellation or a
				// preemption ended the task.
				if away >= 2*f.Config.Poll && st.Left >= left || !patient {
					ended[i] = st.ending()
					ids = append(ids, id)
				}

			case st != nil && st.State.Ended() && st.Attempt >= s.array*restarts:
				if st.Left >= left || !patient {
					ended[i] = st.ending()
				}

			case !patient:
				ended[i] = ""
				ids = append(ids, id)
			}

			working++
		}
	}

	endings := f.Scheduler.endings(ctx, ids)
	again := byReason{}
	for _, i := range slices.Sorted(maps.Keys(ended)) {
		s, why := &f.shards[i], ended[i]
		switch ending := endings[f.id(i)]; {
		case why == "":
			why = f.postMortem(i, ending)
		case ending != "":
			why = ending
		}

		// A task that is cancelled repeatedly is given up, even if it stores rows.
		if left := f.Work.Left(i); left < s.left && !strings.Contains(why, "CANCELLED") {
			s.fruitless = 0
		} else {
			s.fruitless++
		}

		if s.fruitless >= f.Config.Attempts {
			s.state, s.why = failed, fmt.Sprintf("%s; %s brought no further row", why, textutil.Some(s.fruitless, "try"))
			if s.fruitless > 1 {
				s.why = fmt.Sprintf("%s; %d tries brought no further row", why, s.fruitless)
			}
			stuck.add(s.why, i)
			continue
		}

		s.state = open
		again.add(why, i)
	}

	f.warn("tasks cannot be cancelled", f.Scheduler.cancel(ctx, cancel...))
	stuck.each(func(why string, shards []int) {
		f.Work.Say("error", fmt.Sprintf("%s: given up: %s", tasks(shards), why))
	})

	again.each(func(why string, shards []int) {
		f.Work.Say("warn", fmt.Sprintf("%s: submitted again: %s", tasks(shards), why))
	})

	f.show(working, waiting)
	return ""
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
			f.Work.Say("info", fmt.Sprintf("%s: waiting, Slurm gives the reason %s", tasks(shards), reason))
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

// postMortem describes the end of a task without a final status, from the accounting and the last lines
// of its log.
func (f *Follower) postMortem(shard int, ending string) string {
	if ending == "" {
		ending = "its job ended without a result"
	}

	array, index, _ := strings.Cut(f.id(shard), "_")
	name := fileName(f.Config.Title(f.Order.Stage)) + "_" + array + "_" + index
	for _, ext := range []string{".err", ".out"} {
		raw, err := lastBytes(filepath.Join(f.Script.LogDir, name+ext), 2000)
		if err != nil || len(raw) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(raw), "?")), "\n")
		return ending + "; the end of its output: " + strings.Join(lines[max(0, len(lines)-2):], " / ")
	}

	return ending
}

// lastBytes reads at most the given number of bytes from the end of a file.
func lastBytes(path string, most int64) ([]byte, error) {
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

// arraySize is the number of indices of an array with Slurm's default for MaxArraySize.
const arraySize = 1000

// submit submits open shards in as few arrays as possible. listed is the number of the user's jobs in
// the queue.
func (f *Follower) submit(ctx context.Context, listed int) error {
	var shards []int
	for i, s := range f.shards {
		switch {
		case s.state != open:
		case f.Work.Left(i) == 0:
			f.shards[i].state = done
		default:
			shards = append(shards, i)
		}
	}

	for len(shards) > 0 {
		offset, gpus := shards[0]-shards[0]%arraySize, f.Order.Shards[shards[0]].GPUs
		n := 1
		for n < len(shards) && shards[n] < offset+arraySize && f.Order.Shards[shards[n]].GPUs == gpus {
			n++
		}

		err := f.submitArray(ctx, Array{Offset: offset, Shards: shards[:n]}, gpus)
		_, passes := errors.AsType[*temporary](err)
		if passes || err != nil && listed > 0 && strings.Contains(err.Error(), "job submit limit") {
			f.warn(textutil.Some(len(shards), "task")+" cannot be submitted now", err)
			return nil
		}

		if err != nil {
			return f.errorf("the jobs cannot be submitted: %w", err)
		}

		shards = shards[n:]
	}

	return nil
}

// submitArray submits one array.
func (f *Follower) submitArray(ctx context.Context, a Array, gpus int) error {
	// Without this folder Slurm fails the jobs without a message.
	if err := os.MkdirAll(f.Script.LogDir, 0o755); err != nil {
		return fileutil.Explain("create", f.Script.LogDir, err)
	}

	script := filepath.Join(f.Order.Dir(), "script.sh")
	if gpus > 0 {
		script = filepath.Join(f.Order.Dir(), fmt.Sprintf("script-%d-gpus.sh", gpus))
	}

	if err := os.WriteFile(script, []byte(f.Config.Sized(gpus).Text(f.Script)), 0o755); err != nil {
		return err
	}

	indices := make([]int, len(a.Shards))
	for i, s := range a.Shards {
		indices[i] = s - a.Offset
	}

	// An array without a job id still uses its number. If sbatch timed out but Slurm accepted the array,
	// later tries of its shards replace its tasks.
	number := len(f.arrays)
	var err error
	a.Job, err = f.Scheduler.submit(ctx, script, indices, f.Config.Parallel, fmt.Sprint(a.Offset), fmt.Sprint(number))
	if _, unclear := errors.AsType[*temporary](err); err != nil && !unclear {
		return err
	}

	f.arrays = append(f.arrays, a)
	if werr := f.Order.writeArrays(f.arrays); err != nil || werr != nil {
		return errors.Join(err, werr)
	}

	for _, i := range a.Shards {
		s := &f.shards[i]
		s.state, s.array, s.left, s.gone = queued, number, f.Work.Left(i), time.Time{}
	}

	f.Work.Say("info", fmt.Sprintf("%s submitted as %s; logs in %s", textutil.Some(len(a.Shards), "task"), a.Job,
		f.Script.LogDir))

	return nil
}

// errorf returns an error with the location of the executor block.
func (f *Follower) errorf(format string, err error) error {
	r := f.Config.Range
	return fmt.Errorf("%s (%s:%d): "+format, f.Config.Address, r.Filename, r.Start.Line, err)
}

// warn shows an error unless it is equal to the last one that was shown.
func (f *Follower) warn(what string, err error) {
	if err == nil {
		return
	}
	if text := fmt.Sprintf("%s: %v", what, err); text != f.trouble {
		f.trouble = text
		f.Work.Say("warn", text)
	}
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
