package comm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// member is one rank from the crew's point of view.
type member interface {
	// start runs a task on the rank. Exactly one outcome is sent to out.
	start(t task, out chan<- outcome)
	// cancel makes the running task return soon.
	cancel()
	// rescue aborts the communicator of a rank that does not return from a call.
	rescue(ranks int) error
	// end ends the rank without waiting for a stuck one.
	end()
}

type outcome struct {
	rank int
	rep  report
	err  *rankError
}

// crew manages ranks, one per GPU, over many cases. It is not safe for concurrent use.
type crew struct {
	// hire starts a rank and returns when it is ready for tasks.
	hire func(ctx context.Context, rank int) (member, error)

	// muster, if not nil, replaces hire and starts all ranks at once, for launchers that cannot start a
	// single one.
	muster func(ctx context.Context) ([]member, error)

	// begin, if not nil, is called before a task is sent to the ranks.
	begin func(task)

	// patience is how long a cancelled rank may take to return. Then its communicator is aborted, and after
	// five more such periods the rank is considered stuck.
	patience time.Duration
	limit    float64 // limit of tasks, in seconds
	joinTime float64 // limit of taskJoin, in seconds

	members []member
	joined  map[int]bool
	places  []place
	peers   map[string]bool // loaded kernels, by via and number of ranks
}

// joinSeconds bounds the creation of a communicator, in which NCCL explores the machine's topology.
const joinSeconds = 60

func newCrew(hire func(context.Context, int) (member, error), limit float64) *crew {
	return &crew{
		hire: hire, limit: limit, joinTime: max(limit, joinSeconds), patience: 2 * time.Second,
		joined: map[int]bool{}, peers: map[string]bool{},
	}
}

// staff starts missing ranks, so that there are at least as many as requested.
func (c *crew) staff(ctx context.Context, ranks int) error {
	if c.muster != nil {
		return c.staffTogether(ctx, ranks)
	}

	for len(c.members) < ranks {
		c.members = append(c.members, nil)
	}

	var missing []int
	for i := range ranks {
		if c.members[i] == nil {
			missing = append(missing, i)
		}
	}

	errs := make([]error, len(missing))
	done := make(chan int)
	for k, i := range missing {
		go func() {
			m, err := c.hire(ctx, i)
			if err != nil {
				errs[k] = &rankError{Rank: i, How: failError, Err: err}
			} else {
				c.members[i] = m
			}
			done <- k
		}()
	}

	for range missing {
		<-done
	}

	return errors.Join(errs...)
}

// staffTogether restarts all ranks if one of the required ranks is missing.
func (c *crew) staffTogether(ctx context.Context, ranks int) error {
	if len(c.members) >= ranks && !slices.Contains(c.members[:ranks], nil) {
		return nil
	}

	c.dismiss()
	members, err := c.muster(ctx)
	if err != nil {
		return err
	}

	c.members = members
	return nil
}

// do runs the task on all its ranks and returns their reports by rank. If a rank fails, the other ranks are
// released and the communicator of this number of ranks is aborted. The error is that of the first failure.
// It wraps errStuck if a rank could not be released.
func (c *crew) do(ctx context.Context, t task) ([]report, error) {
	if t.Limit == 0 {
		t.Limit = c.limit
	}

	if err := c.staff(ctx, t.Ranks); err != nil {
		return nil, err
	}

	reports, failed := c.round(ctx, t)
	if failed == nil {
		return reports, nil
	}
	return nil, c.recover(ctx, t, failed)
}

// round runs one task without the recovery after a failure.
func (c *crew) round(ctx context.Context, t task) ([]report, *breakdown) {
	out := make(chan outcome, t.Ranks)
	waiting := map[int]bool{}
	if c.begin != nil {
		c.begin(t)
	}

	for i := range t.Ranks {
		if t.takesPart(i) {
			waiting[i] = true
			c.members[i].start(t, out)
		}
	}

	reports := make([]report, t.Ranks)
	f := &breakdown{}

	// A rank stops after its limit by itself. The timer is for a rank inside a call that does not return.
	timer := time.NewTimer(limitOf(t) + c.patience)
	defer timer.Stop()
	cancelled, rescued := false, false
	release := func() {
		if cancelled {
			return
		}
		cancelled = true
		for i := range waiting {
			c.members[i].cancel()
		}
		timer.Reset(c.patience)
	}

	stopped := ctx.Done()
	for len(waiting) > 0 {
		select {
		case o := <-out:
			delete(waiting, o.rank)
			reports[o.rank] = o.rep
			if o.err != nil {
				f.add(o.err)
				release()
			}

		case <-stopped:
			stopped = nil
			f.add(&rankError{Rank: t.Ranks - 1, How: failError, Err: context.Cause(ctx)})
			release()

		case <-timer.C:
			switch {
			case !cancelled:
				for i := range waiting {
					f.add(&rankError{Rank: i, How: failHang, Err: fmt.Errorf("%w within %v", errHung, limitOf(t))})
				}
				release()

			case !rescued:
				rescued = true
				f.rescue(c, t, waiting)
				timer.Reset(5 * c.patience)

			default:
				for i := range waiting {
					f.stuck = append(f.stuck, i)
				}
				slices.Sort(f.stuck)
				return nil, f
			}
		}
	}

	if f.first == nil {
		return reports, nil
	}

	return nil, f
}

// breakdown describes how a task failed.
type breakdown struct {
	first *rankError
	died  []int
	stuck []int
	extra []error
}

// add records a failure. The first one is kept, unless it is only the consequence of another: a released
// rank, or a rank that waited for one that died.
func (f *breakdown) add(e *rankError) {
	if e.How == failDied {
		f.died = append(f.died, e.Rank)
	}
	if f.first == nil || f.first.How == failPeer || (f.first.How == failHang && e.How == failDied) {
		f.first = e
	}
}

// rescue aborts the communicators of the ranks that do not return. It does so concurrently, because one
// abort may wait for another inside NCCL.
func (f *breakdown) rescue(c *crew, t task, waiting map[int]bool) {
	errs := make(chan error, len(waiting))
	for i := range waiting {
		go func() { errs <- c.members[i].rescue(t.Ranks) }()
	}

	for range waiting {
		select {
		case err := <-errs:
			if err != nil {
				f.extra = append(f.extra, err)
			}
		case <-time.After(c.patience):
			return
		}
	}
}

// recover restores a state in which the next task can run, and returns the error of the failed task.
func (c *crew) recover(ctx context.Context, t task, f *breakdown) error {
	err := errors.Join(append([]error{f.first}, f.extra...)...)
	clear(c.peers)

	// All communicators of a lost rank are lost. The state of this task's communicator is unknown.
	lost := append(slices.Clone(f.stuck), f.died...)
	drop := map[int]bool{t.Ranks: true}

	for n := range c.joined {
		if slices.ContainsFunc(lost, func(r int) bool { return r < n }) {
			drop[n] = true
		}
	}

	for _, n := range slices.Sorted(maps.Keys(drop)) {
		delete(c.joined, n)
		for _, i := range f.died {
			if i < n {
				c.bury(c.members[i], n)
			}
		}
	}

	for _, i := range lost {
		c.members[i].end()
		c.members[i] = nil
	}

	for _, n := range slices.Sorted(maps.Keys(drop)) {
		var alive []int
		for i := range n {
			if c.members[i] != nil {
				alive = append(alive, i)
			}
		}

		if len(alive) == 0 {
			continue
		}

		abort := task{Kind: taskAbort, Ranks: n, Only: alive, Limit: c.limit}
		if _, bad := c.round(context.WithoutCancel(ctx), abort); bad != nil {
			c.dismiss()
			return fmt.Errorf("%w: %w: %w", errStuck, err, bad.first)
		}
	}

	if len(f.stuck) > 0 {
		c.dismiss()
		return fmt.Errorf("%w: rank %v: %w", errStuck, f.stuck, err)
	}

	return err
}

// bury aborts the communicator of a dead rank. This has an effect if the rank was a thread, but not if it
// was a process.
func (c *crew) bury(m member, ranks int) {
	done := make(chan struct{})
	go func() {
		_ = m.rescue(ranks) // an error means that no communicator is left to abort
		close(done)
	}()

	select {
	case <-done:
	case <-time.After(c.patience):
	}
}

// dismiss ends all ranks, even if a task is running.
func (c *crew) dismiss() {
	for i, m := range c.members {
		if m != nil {
			m.end()
			c.members[i] = nil
		}
	}

	clear(c.joined)
	clear(c.peers)
	c.places = nil
}

// join creates the communicator of the given number of ranks if it does not exist yet.
func (c *crew) join(ctx context.Context, ranks int) error {
	if c.joined[ranks] {
		return nil
	}

	reps, err := c.do(ctx, task{Kind: taskID, Ranks: ranks, Only: []int{0}})
	if err != nil {
		return err
	}

	c.joined[ranks] = true // recover resets it if the join fails
	_, err = c.do(ctx, task{Kind: taskJoin, Ranks: ranks, ID: reps[0].ID, Limit: c.joinTime})
	if err != nil {
		return fmt.Errorf("joining a communicator of %d: %w", ranks, err)
	}

	return nil
}

// reserve allocates the task's buffers on all ranks and stores their addresses in c.places.
func (c *crew) reserve(ctx context.Context, t task) error {
	t.Kind = taskReserve
	reps, err := c.do(ctx, t)
	if err != nil {
		return err
	}

	c.places = make([]place, len(reps))
	for i, r := range reps {
		c.places[i] = r.Place
	}
	return nil
}

// meetPeers enables access to the memory of the other ranks, once per via and number of ranks.
func (c *crew) meetPeers(ctx context.Context, t task) error {
	key := fmt.Sprint(t.Via, t.Ranks)
	if c.peers[key] {
		return nil
	}

	t.Kind, t.Peers = taskPeer, c.places
	if _, err := c.do(ctx, t); err != nil {
		return err
	}

	c.peers[key] = true
	return nil
}

// close ends all ranks. It tries to destroy the communicators cleanly first. A failure to do so is ignored,
// because the process exits anyway.
func (c *crew) close(ctx context.Context) {
	for _, n := range slices.Sorted(maps.Keys(c.joined)) {
		if _, bad := c.round(ctx, task{Kind: taskLeave, Ranks: n, Limit: c.limit}); bad != nil {
			break
		}
	}
	c.dismiss()
}
