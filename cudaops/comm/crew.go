package comm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// member is one rank as its crew sees it.
type member interface {
	// start gives the rank a task; its outcome comes on the channel, once.
	start(t task, out chan<- outcome)
	// cancel makes the task in flight return soon.
	cancel()
	// rescue aborts a communicator under a rank that does not return.
	rescue(ranks int) error
	// end ends the rank. One that is stuck is left behind.
	end()
}

type outcome struct {
	rank int
	rep  report
	err  *rankError
}

// crew is the ranks of one node. Its methods are called by one goroutine.
type crew struct {
	// hire makes the member of a rank, ready for tasks.
	hire func(ctx context.Context, rank int) (member, error)
	// muster makes all members at once, where they can be started only together;
	// nil where hire makes each.
	muster func(ctx context.Context) ([]member, error)
	// begin is called before the ranks get a task; nil when nobody cares.
	begin func(task)
	// patience is how long a cancelled rank may take to return before its
	// communicator is aborted under it, and then again before it is given up.
	patience time.Duration
	limit    float64 // of tasks, in seconds
	joinTime float64 // of taskJoin, in seconds

	members []member
	joined  map[int]bool
	places  []place
	peers   map[string]bool // kernels that are ready, by via and number of ranks
}

// joinSeconds bounds the making of a communicator: NCCL measures the machine's
// paths then.
const joinSeconds = 60

func newCrew(hire func(context.Context, int) (member, error), limit float64) *crew {
	return &crew{
		hire: hire, limit: limit, joinTime: max(limit, joinSeconds), patience: 2 * time.Second,
		joined: map[int]bool{}, peers: map[string]bool{},
	}
}

// staff makes sure that there are so many members.
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

// staffTogether starts all members anew where one of those that are needed is
// missing.
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

// do gives the task to all ranks of it and returns their reports in the order
// of the ranks. When one fails, the others are released and the communicator of
// so many ranks is gone. The error is that of the rank that failed first; it
// wraps errStuck when a rank could not be released.
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

// round is one task without what follows a failure.
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
	// A rank gives up by itself after its limit; the timer is for one that
	// cannot, because it is inside a call that does not return.
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

// breakdown is how a task ended badly.
type breakdown struct {
	first *rankError
	died  []int
	stuck []int
	extra []error
}

// add keeps the failure that came first; those that follow from it do not
// replace it.
func (f *breakdown) add(e *rankError) {
	if e.How == failDied {
		f.died = append(f.died, e.Rank)
	}
	if f.first == nil || f.first.How == failPeer || (f.first.How == failHang && e.How == failDied) {
		f.first = e
	}
}

// rescue aborts the communicators of ranks that do not return, all at once:
// NCCL may wait for one abort inside another.
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

// recover brings the crew into a state in which the next task can work, and
// returns the error of this one.
func (c *crew) recover(ctx context.Context, t task, f *breakdown) error {
	err := errors.Join(append([]error{f.first}, f.extra...)...)
	clear(c.peers)
	// Every communicator that a lost rank was part of is lost with it; the one
	// of this task is in an unknown state.
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

// bury aborts what is left of the communicator of a rank that died: something
// where the rank was a thread, nothing where it was a process.
func (c *crew) bury(m member, ranks int) {
	done := make(chan struct{})
	go func() {
		_ = m.rescue(ranks) // without a communicator there is nothing to do
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(c.patience):
	}
}

// dismiss ends all ranks, whatever they do.
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

// join makes the communicator of so many ranks, once.
func (c *crew) join(ctx context.Context, ranks int) error {
	if c.joined[ranks] {
		return nil
	}
	reps, err := c.do(ctx, task{Kind: taskID, Ranks: ranks, Only: []int{0}})
	if err != nil {
		return err
	}
	c.joined[ranks] = true // a failed join is taken back like any other failure
	_, err = c.do(ctx, task{Kind: taskJoin, Ranks: ranks, ID: reps[0].ID, Limit: c.joinTime})
	if err != nil {
		return fmt.Errorf("joining a communicator of %d: %w", ranks, err)
	}
	return nil
}

// reserve makes room on all ranks and learns where it is.
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

// meetPeers makes the memory of the ranks reachable for each other.
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

// close ends all ranks. Communicators are left in order where that works; the
// process ends in any case.
func (c *crew) close(ctx context.Context) {
	for _, n := range slices.Sorted(maps.Keys(c.joined)) {
		if _, bad := c.round(ctx, task{Kind: taskLeave, Ranks: n, Limit: c.limit}); bad != nil {
			break
		}
	}
	c.dismiss()
}
