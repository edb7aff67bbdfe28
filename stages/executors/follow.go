package executors

import (
	"context"
	"errors"
	"fmt"
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
	Say(level, format string, args ...any)
}

// Follower submits the shards of an order until each has a result or is given up.
type Follower struct {
	Config *Config
	Order  *Order
	Script Script
	Work   Work
	// Stop makes Follow return when it is closed. The jobs continue.
	Stop <-chan struct{}
	// Detach makes Follow return once all shards are submitted. The jobs continue.
	Detach bool

	arrays  []Array
	shards  []shard
	trouble string          // the last temporary error that was shown
	reasons map[string]bool // reasons for waiting that were shown
}

// Outcome is the result of Follow.
type Outcome struct {
	// Lost are the shards that were given up, with the reason.
	Lost map[int]string
	// Stopped is the reason why the ramp did not pass, or "".
	Stopped string
	// Detached is true if Follow returned because of Stop or Detach. Jobs are the arrays that had not ended.
	Detached bool
	Jobs     []string
}

// Active returns the jobs of an order that wait or run.
func Active(ctx context.Context, o *Order) ([]Job, error) {
	arrays, err := o.arrays()
	if err != nil || len(arrays) == 0 {
		return nil, err
	}
	jobs, err := squeue(ctx)
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
		if f.Order.Cancelled() {
			f.giveUp()
		}

		jobs, err := squeue(ctx)
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
			if out.Stopped = f.update(ctx, jobs); out.Stopped != "" {
				return out, scancel(context.WithoutCancel(ctx), f.live()...)
			}

			if err := f.submit(ctx, len(jobs)); err != nil {
				if out.Jobs = f.live(); len(out.Jobs) > 0 {
					ids := strings.Join(out.Jobs, " ")
					err = fmt.Errorf("%w; the jobs %s continue: the same command follows them, aicplan cancel ends them", err, ids)
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

		waits := func(s shard) bool { return s.state == pending }
		if f.Detach && !slices.ContainsFunc(f.shards, waits) {
			out.Detached, out.Jobs = true, f.live()
			return out, nil
		}

		select {
		case <-f.Stop:
			out.Detached, out.Jobs = true, f.live()
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
			s := &f.shards[i]
			s.state, s.array, s.left, s.grown = queued, n, f.Work.Left(i), a.Grown
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

// giveUp fails the shards of a cancelled order that are not done.
func (f *Follower) giveUp() {
	for i := range f.shards {
		if s := &f.shards[i]; s.state < done {
			s.state, s.why = failed, "its order was cancelled with aicplan cancel"
		}
	}
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
		if err != nil || st == nil || s.status != nil && st.Attempt == s.status.Attempt &&
			st.Seen.Equal(s.status.Seen) {
			continue // a status that cannot be read now may be readable at the next poll
		}
		s.status = st
		changed = append(changed, st)
	}

	return f.Work.Take(changed)
}

// arraySize is the number of indices of an array with Slurm's default for MaxArraySize.
const arraySize = 1000

// submit submits open shards in as few arrays as possible. listed is the number of the user's jobs in
// the queue.
func (f *Follower) submit(ctx context.Context, listed int) error {
	var shards []int
	for i, s := range f.shards {
		switch {
		case s.state != pending:
		case f.Work.Left(i) == 0:
			f.shards[i].state = done
		default:
			shards = append(shards, i)
		}
	}

	for len(shards) > 0 {
		first := shards[0]
		offset, gpus, grown := first-first%arraySize, f.Order.Shards[first].GPUs, f.shards[first].grown
		n := 1
		for n < len(shards) && shards[n] < offset+arraySize && f.Order.Shards[shards[n]].GPUs == gpus &&
			f.shards[shards[n]].grown == grown {
			n++
		}

		err := f.submitArray(ctx, Array{Offset: offset, Shards: shards[:n], Grown: grown}, gpus)
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

	script := filepath.Join(f.Order.Dir, "script.sh")
	if gpus > 0 {
		script = filepath.Join(f.Order.Dir, fmt.Sprintf("script-%d-gpus.sh", gpus))
	}

	if err := os.WriteFile(script, []byte(f.Config.Sized(gpus).grown(a.Grown).Text(f.Script)), 0o755); err != nil {
		return err
	}

	indices := make([]int, len(a.Shards))
	for i, s := range a.Shards {
		indices[i] = s - a.Offset
	}

	// The array is stored first, without a job id, because this process or sbatch may end after Slurm accepted the
	// array. It uses its number, so that later tries of its shards replace its tasks.
	number := len(f.arrays)
	if err := f.Order.writeArrays(append(f.arrays, a)); err != nil {
		return err
	}

	var err error
	a.Job, err = sbatch(ctx, script, indices, f.Config.Parallel, fmt.Sprint(a.Offset), fmt.Sprint(number))
	_, unclear := errors.AsType[*temporary](err)
	if err == nil || unclear || ctx.Err() != nil {
		f.arrays = append(f.arrays, a)
	}
	if werr := f.Order.writeArrays(f.arrays); err != nil || werr != nil {
		return errors.Join(err, werr)
	}

	for _, i := range a.Shards {
		s := &f.shards[i]
		s.state, s.array, s.left, s.gone = queued, number, f.Work.Left(i), time.Time{}
	}

	f.Work.Say("info", "%s submitted as %s; logs in %s", textutil.Some(len(a.Shards), "task"), a.Job,
		f.Script.LogDir)

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
		f.Work.Say("warn", "%s", text)
	}
}
