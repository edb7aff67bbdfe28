package executors

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
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
	// Slots are shared by all followers of a run; nil where there is one only.
	Slots *Slots

	batches     []Batch
	shards      []shard
	queueFailed time.Time
	refused     time.Time                    // since when sbatch takes no jobs
	heldSince   time.Time                    // since when all that is left is held
	full        bool                         // the user was told that some tasks are not in the queue
	room        int                          // tasks that an array has at most, after such a refusal; 0 where there was none
	queued      int                          // jobs of the user when the queue was last read, of other work too
	accounts    map[string]map[string]string // what sacct said, by task
	accountsAt  time.Time
	ends        map[string]map[string]map[string]string // what scontrol said since the last look, by array and task
	waiting     string
	strangers   map[string]*Order   // orders with jobs in the queue, by id; nil where they do not count here
	beside      int                 // tasks of this executor that no follower of the run speaks for
	crowded     int                 // shards that wait for others of the executor
	crowdedTold bool                // the user was told
	rigid       bool                // Slurm changes no limit of an array
	reasons     map[string]*lasting // for which tasks wait or have waited
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
	heard     time.Time // when that was read: clocks of nodes differ
	done      bool
	lost      string   // why it was given up
	held      bool     // its job stays in the queue all the same
	node      string   // where its last try ended
	state     string   // how Slurm says that it ended, where it was asked
	cancelled int      // tries that somebody has cancelled
	avoid     []string // nodes where tries brought no row
	due       bool     // to be submitted once the queue takes more jobs
	silent    bool     // the user was told that it is
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
	if f.Slots == nil {
		f.Slots = new(Slots)
	}
	defer f.Slots.leave(f.Config.Address, f.Order.ID)
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
		jobs, known, err := f.look(ctx)
		var busy *busyError
		if err != nil && ctx.Err() == nil && (errors.Is(err, exec.ErrNotFound) || len(f.batches) == 0 && !errors.As(err, &busy)) {
			// It will not pass by itself, and no job has to be looked after.
			return out, fmt.Errorf("%s (%s:%d): nothing is submitted: %w", f.Config.Address, f.Config.Range.Filename, f.Config.Range.Start.Line, err)
		}
		if err := f.take(); err != nil {
			return out, err
		}
		if known {
			if err := f.adopt(jobs); err != nil {
				return out, err
			}
			f.count(jobs)
			again, err := f.judge(ctx, jobs, out)
			if err != nil {
				return out, err
			}
			if out.Stopped != "" {
				return out, f.cancelAll(ctx, jobs)
			}
			before := len(f.batches)
			n, err := f.submit(ctx, again)
			out.Submitted += n
			if err == nil {
				err = f.widen(ctx, jobs)
			}
			if err != nil {
				out.Jobs = f.ids(jobs)
				for _, b := range f.batches[before:] {
					out.Jobs = append(out.Jobs, b.Job)
				}
				if len(out.Jobs) > 0 {
					ids := strings.Join(out.Jobs, " ")
					err = fmt.Errorf("%w; the jobs %s go on, the same command follows them, and scancel %s ends them", err, ids, ids)
				}
				return out, err
			}
			if f.ended() {
				f.clear(ctx, jobs)
				return f.concluded(out), nil
			}
		}
		if !known && f.complete() {
			f.Work.Say("warn", "all cases have a result, so the queue is not waited for; jobs that are still in it find nothing to do")
			return f.concluded(out), nil
		}
		select {
		case <-f.Stop:
			// Jobs were submitted since the queue was read.
			if now, known, _ := f.look(ctx); known {
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
func (f *Follower) look(ctx context.Context) ([]Job, bool, error) {
	jobs, err := f.Scheduler.queue(ctx)
	f.ends = nil
	switch {
	case err != nil && ctx.Err() == nil:
		if f.queueFailed.IsZero() {
			f.queueFailed = time.Now()
			f.Work.Say("warn", fmt.Sprintf("the queue cannot be read, and is asked again: %v", err))
		}
		return nil, false, err
	case err == nil && !f.queueFailed.IsZero():
		f.Work.Say("info", fmt.Sprintf("the queue can be read again, after %s", rounded(time.Since(f.queueFailed))))
		f.queueFailed = time.Time{}
	}
	f.queued = f.Scheduler.listed
	return jobs, err == nil, err
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
		s.said, s.heard = st, time.Now()
		said = append(said, st)
	}
	return f.Work.Take(said)
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

// cancelAll ends all jobs, also when a second signal has ended the run.
func (f *Follower) cancelAll(ctx context.Context, jobs []Job) error {
	return f.Scheduler.cancel(context.WithoutCancel(ctx), f.ids(jobs)...)
}

// concluded adds the shards that were given up.
func (f *Follower) concluded(out *Outcome) *Outcome {
	for i := range f.shards {
		if f.shards[i].lost != "" {
			out.Lost[i] = f.shards[i].lost
		}
	}
	return out
}

// clear cancels what is left of tries that others have replaced: a job that waits
// would start for nothing, and one that Slurm takes to run may be lost.
func (f *Follower) clear(ctx context.Context, jobs []Job) {
	var ids []string
	for n, b := range f.batches {
		for _, j := range jobs {
			shard := b.Offset + j.Index
			if j.Array != b.Job || shard >= len(f.shards) || f.shards[shard].held {
				continue
			}
			if waits(j.State) || f.shards[shard].batch != n && f.batches[f.shards[shard].batch].Job != j.Array {
				ids = append(ids, j.ID())
			}
		}
	}
	f.cancel(ctx, ids)
}

// complete says whether every shard was submitted and has no case left. Where the
// ramp decides, its task must have said that it passed.
func (f *Follower) complete() bool {
	for i := range f.shards {
		s := &f.shards[i]
		if s.lost == "" && !s.done && (s.batch < 0 || f.Work.Left(i) > 0) {
			return false
		}
	}
	return !f.Order.Scout || f.shards[0].done || f.shards[0].said != nil && f.shards[0].said.State == Done
}

func (f *Follower) ended() bool {
	return !slices.ContainsFunc(f.shards, func(s shard) bool { return !s.done && s.lost == "" })
}
