package executors

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Work is the collect whose shards are followed.
type Work interface {
	// Take is called with what tasks said since the last call, and reads what they
	// have stored. An error ends the following; the jobs go on.
	Take(said []*Status) error
	// Left counts the cases of a shard that have no result yet.
	Left(shard int) int
	// Waiting shows how many tasks run and wait, and why.
	Waiting(text string)
	// Say shows a line.
	Say(level, text string)
}

// Follower submits the shards of an order and sees to it that all end.
type Follower struct {
	Config    *Config
	Order     *Order
	Scheduler *Scheduler
	Script    Script
	Work      Work
	// Stop, when it is closed, ends the following.
	Stop <-chan struct{}
	// CancelOnStop cancels the jobs then; else they go on.
	CancelOnStop bool

	batches     []Batch
	shards      []shard
	queueFailed time.Time
	waiting     string
	waitingTold time.Time
}

// shard is what is known of one.
type shard struct {
	batch     int       // the last one that has it, in batches; -1 before the first
	left      int       // when it was submitted last
	fruitless int       // submissions in a row that brought no row
	gone      time.Time // since when it is in no queue
	hurried   time.Time
	said      *Status
	done      bool
	lost      string // why it was given up
	silent    bool   // the user was told that it is
}

// Outcome is how the following ended.
type Outcome struct {
	// Lost are the shards that were given up, with the reason.
	Lost map[int]string
	// Stopped says why the ramp did not pass; "" where it did.
	Stopped string
	// Detached is true when the user stopped the following; Jobs are those that go
	// on.
	Detached bool
	Jobs     []string
	// Submitted counts the jobs that this call submitted.
	Submitted int
}

// Active says which jobs of an order wait or run.
func Active(ctx context.Context, s *Scheduler, o *Order) ([]string, error) {
	batches, err := o.batches()
	if err != nil || len(batches) == 0 {
		return nil, err
	}
	jobs, err := s.queue(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, j := range jobs {
		if slices.ContainsFunc(batches, func(b Batch) bool { return b.Job == j.Array || b.Job == "" && j.Comment == o.comment(b.Number) }) {
			out = append(out, j.ID())
		}
	}
	return out, nil
}

// Follow returns when every shard has ended or was given up, or when the user
// stops it. What an earlier call submitted is taken over.
func (f *Follower) Follow(ctx context.Context) (*Outcome, error) {
	out := &Outcome{Lost: map[int]string{}}
	f.shards = make([]shard, len(f.Order.Shards))
	for i := range f.shards {
		f.shards[i].batch = -1
	}
	var err error
	if f.batches, err = f.Order.batches(); err != nil {
		return out, err
	}
	for n, b := range f.batches {
		for _, s := range b.Shards {
			f.shards[s].batch, f.shards[s].left = n, f.Order.Shards[s].Cases
		}
	}
	pause := min(f.Config.Poll, 200*time.Millisecond)
	for {
		jobs, known := f.look(ctx)
		if err := f.take(); err != nil {
			return out, err
		}
		if known {
			if err := f.adopt(jobs); err != nil {
				return out, err
			}
			again, err := f.judge(ctx, jobs, out)
			if err != nil {
				return out, err
			}
			if out.Stopped != "" {
				return out, f.cancelAll(ctx, jobs)
			}
			n, err := f.submit(ctx, again)
			out.Submitted += n
			if err != nil {
				out.Jobs = f.ids(jobs)
				return out, err
			}
			if f.ended() {
				for i := range f.shards {
					if f.shards[i].lost != "" {
						out.Lost[i] = f.shards[i].lost
					}
				}
				return out, nil
			}
		}
		select {
		case <-f.Stop:
			// Jobs were submitted since the queue was read.
			if now, known := f.look(ctx); known {
				jobs = now
			}
			out.Detached, out.Jobs = true, f.ids(jobs)
			if f.CancelOnStop {
				return out, f.cancelAll(ctx, jobs)
			}
			return out, nil
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(pause):
			pause = min(pause*2, f.Config.Poll)
		}
	}
}

// look asks for the queue. A scheduler that does not answer says nothing about
// the jobs: they are taken to go on.
func (f *Follower) look(ctx context.Context) ([]Job, bool) {
	jobs, err := f.Scheduler.queue(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		if f.queueFailed.IsZero() {
			f.queueFailed = time.Now()
			f.Work.Say("warn", fmt.Sprintf("the queue cannot be read, and is asked again: %v", err))
		}
		return nil, false
	case !f.queueFailed.IsZero():
		f.Work.Say("info", fmt.Sprintf("the queue can be read again, after %s", slurmTime(time.Since(f.queueFailed))))
		f.queueFailed = time.Time{}
	}
	return jobs, err == nil
}

// take reads what the tasks said.
func (f *Follower) take() error {
	var said []*Status
	for i := range f.shards {
		s := &f.shards[i]
		if s.done || s.lost != "" || s.batch < 0 {
			continue
		}
		st, err := f.Order.Status(i)
		if err != nil || st == nil || s.said != nil && st.Attempt == s.said.Attempt && st.Seen.Equal(s.said.Seen) {
			continue // what cannot be read now can be in a moment
		}
		s.said = st
		said = append(said, st)
	}
	return f.Work.Take(said)
}

// adopt finds the id of an array that was submitted by a coordinator that died
// before it could write the id down.
func (f *Follower) adopt(jobs []Job) error {
	changed := false
	for i := range f.batches {
		b := &f.batches[i]
		if b.Job != "" {
			continue
		}
		b.Job = "none"
		for _, j := range jobs {
			if j.Comment == f.Order.comment(b.Number) {
				b.Job = j.Array
			}
		}
		changed = true
	}
	if !changed {
		return nil
	}
	return f.Order.writeBatches(f.batches)
}

// ids are the jobs of the order in a queue.
func (f *Follower) ids(jobs []Job) []string {
	var out []string
	for _, b := range f.batches {
		if slices.ContainsFunc(jobs, func(j Job) bool { return j.Array == b.Job }) {
			out = append(out, b.Job)
		}
	}
	return out
}

func (f *Follower) cancelAll(ctx context.Context, jobs []Job) error {
	return f.Scheduler.cancel(ctx, f.ids(jobs)...)
}

func (f *Follower) ended() bool {
	return !slices.ContainsFunc(f.shards, func(s shard) bool { return !s.done && s.lost == "" })
}

// judge decides about every shard; it returns those that are to be submitted.
func (f *Follower) judge(ctx context.Context, jobs []Job, out *Outcome) (again []int, err error) {
	type place struct {
		job   string
		index int
	}
	active := map[place]Job{}
	for _, j := range jobs {
		active[place{j.Array, j.Index}] = j
	}
	now := time.Now()
	running, reasons := 0, map[string]int{}
	for i := range f.shards {
		s := &f.shards[i]
		if s.done || s.lost != "" {
			continue
		}
		left := f.Work.Left(i)
		var b *Batch
		job, listed := Job{}, false
		if s.batch >= 0 {
			b = &f.batches[s.batch]
			job, listed = active[place{b.Job, i - b.Offset}]
		}
		switch {
		case listed && job.State == "PENDING":
			s.gone = time.Time{}
			if left == 0 && !f.scout(i) {
				// A try that was killed had stored all of them.
				if err := f.Scheduler.cancel(ctx, job.ID()); err != nil {
					f.Work.Say("warn", err.Error())
				}
				s.done = true
				continue
			}
			reasons[job.Reason]++
			if lost := f.stuck(ctx, i, job, now.Sub(b.At)); lost != "" {
				s.lost = lost
			}
		case listed:
			s.gone = time.Time{}
			running++
			f.silence(i, job, now)
		case left == 0 && f.scout(i) && s.batch >= 0 && !f.passed(s, now):
			// Whether the samples passed is for their task to say.
			if s.said != nil && s.said.State == Stopped {
				out.Stopped = s.said.Message
				return nil, nil
			}
			running++
		case left == 0:
			s.done = true
		case s.batch >= 0 && f.Order.Scout && i > 0 && !f.shards[0].done && f.shards[0].lost == "":
			running++ // it was cancelled; what becomes of the samples decides
		case s.batch < 0:
			again = append(again, i)
		default:
			if s.gone.IsZero() {
				s.gone = now
			}
			why, over := f.why(ctx, i, left, now)
			if !over {
				running++ // what it wrote is on its way
				continue
			}
			if s.said != nil && s.said.State == Stopped && f.Order.Scout && i == 0 {
				out.Stopped = s.said.Message
				return nil, nil
			}
			switch {
			case b.After != "" && (s.said == nil || s.said.Attempt < b.Number*restarts):
				// It was cancelled with the samples that it waited for, which have
				// passed by now: no fault of its own.
				again = append(again, i)
				continue
			case left < s.left:
				s.fruitless = 0
			default:
				s.fruitless++
			}
			if s.fruitless >= f.Config.Attempts {
				s.lost = fmt.Sprintf("%s; %s brought no further row", why, some(s.fruitless, "try"))
				if s.fruitless > 1 {
					s.lost = fmt.Sprintf("%s; %d tries brought no further row", why, s.fruitless)
				}
				f.Work.Say("error", fmt.Sprintf("task %d is given up: %s", i, s.lost))
				continue
			}
			if s.said == nil || s.said.State != Drained {
				f.Work.Say("warn", fmt.Sprintf("task %d has %s left and is submitted again: %s", i, some(left, "case"), why))
			}
			again = append(again, i)
		}
	}
	f.tell(running, reasons)
	return again, nil
}

// scout says whether a shard has the samples of the ramp.
func (f *Follower) scout(i int) bool { return f.Order.Scout && i == 0 }

// passed says whether the task of the samples has ended well, or has kept silent
// for so long that its rows alone count.
func (f *Follower) passed(s *shard, now time.Time) bool {
	if s.gone.IsZero() {
		s.gone = now
	}
	if s.said != nil && s.said.State.Ended() {
		return s.said.State != Stopped
	}
	return now.Sub(s.gone) > f.Config.Settle
}

// retell is how often it is said again how many tasks run.
const retell = 30 * time.Second

// tell shows how many tasks run and wait, when that has changed.
func (f *Follower) tell(running int, reasons map[string]int) {
	var parts []string
	if running > 0 {
		parts = append(parts, fmt.Sprintf("%d running", running))
	}
	for _, r := range slices.Sorted(maps.Keys(reasons)) {
		parts = append(parts, fmt.Sprintf("%d waiting (%s)", reasons[r], reasonText(r)))
	}
	text := strings.Join(parts, ", ")
	if text != "" && (text != f.waiting || time.Since(f.waitingTold) > retell) {
		f.waiting, f.waitingTold = text, time.Now()
		f.Work.Waiting("tasks: " + text)
	}
}

// reasonText explains the usual reasons for waiting.
func reasonText(reason string) string {
	switch reason {
	case "Priority":
		return "Priority: others are first"
	case "Resources":
		return "Resources: nodes are in use"
	case "JobArrayTaskLimit":
		return "JobArrayTaskLimit: parallel says how many"
	case "Dependency":
		return "Dependency: the samples of the ramp are first"
	case "BeginTime":
		return "BeginTime: after a restart Slurm waits a moment"
	case "", "None":
		return "not looked at yet"
	}
	return reason
}

// stuck says why a task in the queue is given up, "" where it is not.
func (f *Follower) stuck(ctx context.Context, i int, job Job, since time.Duration) string {
	s := &f.shards[i]
	why := hopelessReason(job.Reason)
	if why == "" && f.Config.StartWithin > 0 && since > f.Config.StartWithin && s.said == nil {
		why = fmt.Sprintf("it has not started within %s (%s)", f.Config.StartWithin, reasonText(job.Reason))
	}
	if why == "" {
		if job.Reason == "BeginTime" && s.said != nil && time.Since(s.hurried) > 10*time.Second {
			s.hurried = time.Now()
			if err := f.Scheduler.hurry(ctx, job.ID()); err != nil {
				f.Work.Say("debug", err.Error())
			}
		}
		return ""
	}
	if err := f.Scheduler.cancel(ctx, job.ID()); err != nil {
		f.Work.Say("warn", err.Error())
	}
	f.Work.Say("error", fmt.Sprintf("task %d (%s) will not start and is cancelled: %s", i, job.ID(), why))
	return "it never started: " + why
}

// quietAfter is after how many heartbeats without a word the user is told.
const quietAfter = 6

// silence tells the user of a task that runs, as Slurm says, and is silent.
func (f *Follower) silence(i int, job Job, now time.Time) {
	s := &f.shards[i]
	if s.said == nil || s.said.State.Ended() {
		return
	}
	quiet := now.Sub(s.said.Seen)
	switch {
	case quiet > quietAfter*Heartbeat+f.Config.Settle && !s.silent:
		s.silent = true
		f.Work.Say("warn", fmt.Sprintf("task %d (%s) on %s has said nothing for %s: the node or the file system is slow, or it hangs; scancel %s lets it be tried elsewhere",
			i, job.ID(), s.said.Node, slurmTime(quiet), job.ID()))
	case quiet < 2*Heartbeat:
		s.silent = false
	}
}

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
		text := st.Message
		if text == "" {
			text = "it ended"
		}
		if st.State == Drained {
			text = "its time was over"
			if st.Message != "" {
				text = st.Message
			}
		}
		return fmt.Sprintf("%s (on %s)", text, st.Node), true
	}
	if b.Job == "none" {
		return "it was never submitted", true
	}
	id := fmt.Sprintf("%s_%d", b.Job, i-b.Offset)
	known := f.Scheduler.describe(ctx, id)
	state := known["JobState"]
	switch {
	case state == "" && patient, state == "COMPLETED" && patient, state == "PENDING" || state == "RUNNING" || state == "COMPLETING" || state == "CONFIGURING":
		return "", false
	case state == "CANCELLED" || state == "NODE_FAIL" || state == "FAILED" || state == "TIMEOUT" || state == "OUT_OF_MEMORY" || state == "BOOT_FAIL" || state == "DEADLINE" || state == "PREEMPTED":
		if s.said != nil && patient && now.Sub(s.gone) < min(f.Config.Settle, 2*time.Second) {
			return "", false
		}
	}
	return f.post(i, id, known), true
}

// launchFailed is the exit code of a job whose script was never begun.
const launchFailed = "0:53"

// post says how a job died that left no word.
func (f *Follower) post(i int, id string, known map[string]string) string {
	on := ""
	if n := known["NodeList"]; n != "" && n != "(null)" {
		on = " on " + n
	}
	text := "Slurm has forgotten the job " + id
	switch state := known["JobState"]; state {
	case "":
	case "NODE_FAIL":
		text = "the node was lost" + on
	case "CANCELLED":
		text = "it was cancelled" + on
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

// submit hands shards to Slurm, in as few arrays as its limit on indices allows.
func (f *Follower) submit(ctx context.Context, shards []int) (int, error) {
	if len(shards) == 0 {
		return 0, nil
	}
	after := ""
	if f.Order.Scout && !f.shards[0].done {
		if slices.Contains(shards, 0) {
			if err := f.batch(ctx, []int{0}, 0, ""); err != nil {
				return 0, err
			}
			shards = slices.DeleteFunc(slices.Clone(shards), func(s int) bool { return s == 0 })
		}
		if n := f.shards[0].batch; n >= 0 {
			after = f.batches[n].Job
		}
	}
	n := len(shards)
	most := f.Scheduler.arraySize(ctx)
	for len(shards) > 0 {
		offset := 0
		if shards[0] >= most {
			offset = shards[0]
		}
		end := 0
		for end < len(shards) && shards[end]-offset < most {
			end++
		}
		if err := f.batch(ctx, shards[:end], offset, after); err != nil {
			return 0, err
		}
		shards = shards[end:]
	}
	return n, nil
}

// batch submits one array. It is written down first that it is about to be, so
// that a coordinator that dies meanwhile finds it by its comment.
func (f *Follower) batch(ctx context.Context, shards []int, offset int, after string) error {
	b := Batch{Number: len(f.batches), Offset: offset, Shards: slices.Clone(shards), After: after, At: time.Now().UTC()}
	if err := os.MkdirAll(f.Order.LogDir(f.Config), 0o755); err != nil {
		return fmt.Errorf("the folder for the jobs' output cannot be made, and without it they die without a word: %w", err)
	}
	script := filepath.Join(f.Order.Dir(), "script.sh")
	if err := os.WriteFile(script, []byte(f.Config.Text(f.Script)), 0o755); err != nil {
		return err
	}
	if err := f.Order.writeBatches(append(slices.Clone(f.batches), b)); err != nil {
		return err
	}
	indices := make([]int, len(shards))
	for i, s := range shards {
		indices[i] = s - offset
	}
	var err error
	b.Job, err = f.Scheduler.submit(ctx, submission{
		script: script, indices: indices, most: f.Config.Parallel, after: after, comment: f.Order.comment(b.Number),
		args: []string{fmt.Sprint(offset), fmt.Sprint(b.Number)},
	})
	if err != nil {
		if werr := f.Order.writeBatches(f.batches); werr != nil {
			return werr
		}
		return fmt.Errorf("%s: the jobs cannot be submitted: %w", f.Config.Address, err)
	}
	f.batches = append(f.batches, b)
	for _, s := range shards {
		f.shards[s].batch, f.shards[s].gone, f.shards[s].left = len(f.batches)-1, time.Time{}, f.Work.Left(s)
	}
	f.Work.Say("info", fmt.Sprintf("%s submitted as %s; logs in %s", some(len(shards), "task"), b.Job, f.Order.LogDir(f.Config)))
	return f.Order.writeBatches(f.batches)
}
