package executors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Slots count the tasks of executors that may run at the same time, over all
// collects of a run: `parallel` is one number for the block, and Slurm's own limit
// one for each array.
type Slots struct {
	mu   sync.Mutex
	used map[string]map[string]int // by executor and order
}

// set says how many an order has.
func (s *Slots) set(executor, order string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = map[string]map[string]int{}
	}
	if s.used[executor] == nil {
		s.used[executor] = map[string]int{}
	}
	s.used[executor][order] = n
}

// take gives an order more of them, as many of want as there are; elsewhere are
// those that orders have which no follower of this run speaks for.
func (s *Slots) take(executor, order string, most, elsewhere, want int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := most - elsewhere
	for _, n := range s.used[executor] {
		free -= n
	}
	n := max(0, min(free, want))
	if n > 0 {
		s.used[executor][order] += n
	}
	return n
}

// leave is called when an order has no follower any more: its jobs may go on, and
// count as those of a stranger.
func (s *Slots) leave(executor, order string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.used[executor], order)
}

// knows says whether an order has a follower in this run.
func (s *Slots) knows(executor, order string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.used[executor][order]
	return ok
}

// occupied is how many tasks of an order can run at the same time, as its arrays
// stand in the queue. Those that are held do not run. What waits for the samples of
// the ramp does not run beside them.
func (o *Order) occupied(batches []Batch, jobs []Job, parallel int) int {
	queued := inQueue(jobs)
	n, samples := 0, 0
	for _, b := range batches {
		has := queued[b.Job]
		switch most := b.Most; {
		case o.Scout && len(b.Shards) == 1 && b.Shards[0] == 0:
			samples = max(samples, min(has, 1))
		case most > 0:
			n += min(has, most)
		case parallel > 0:
			n += min(has, parallel) // an aicplan that did not write it down
		default:
			n += has
		}
	}
	return max(n, samples)
}

// inQueue counts tasks by array, without those that are held.
func inQueue(jobs []Job) map[string]int {
	out := map[string]int{}
	for _, j := range jobs {
		if _, how := whyWaiting(j.Reason); how != held || !waits(j.State) {
			out[j.Array]++
		}
	}
	return out
}

// elsewhere counts tasks of this executor that belong to orders which nobody in
// this run follows, or not yet: a coordinator may have died.
func (f *Follower) elsewhere(jobs []Job) (n int) {
	if f.strangers == nil {
		f.strangers = map[string]*Order{}
	}
	seen := map[string]bool{}
	for _, j := range jobs {
		id, ok := strings.CutPrefix(j.Comment, commentOf(""))
		id, _, _ = strings.Cut(id, ":")
		if !ok || id == "" || id == f.Order.ID || seen[id] || strings.ContainsAny(id, `/\`) {
			continue
		}
		seen[id] = true
		o, known := f.strangers[id]
		if !known {
			o = f.sibling(id)
			f.strangers[id] = o
		}
		if o == nil || f.Slots.knows(f.Config.Address, id) {
			continue
		}
		if batches, err := o.batches(); err == nil {
			n += o.occupied(batches, jobs, f.Config.Parallel)
		}
	}
	return n
}

// sibling is another order of the same executor of the same plan, in the same state
// folder; nil where id is none.
func (f *Follower) sibling(id string) *Order {
	homes := filepath.Dir(filepath.Dir(f.Order.Dir()))
	entries, err := os.ReadDir(homes)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		o, err := OpenOrder(filepath.Join(homes, e.Name(), id))
		if err == nil && o.Executor == f.Config.Address && o.Path == f.Order.Path {
			return o
		}
	}
	return nil
}

// count tells the others of the run how many tasks this order has in the queue.
func (f *Follower) count(jobs []Job) {
	if f.Config.Parallel == 0 {
		return
	}
	f.beside = f.elsewhere(jobs)
	f.Slots.set(f.Config.Address, f.Order.ID, f.Order.occupied(f.batches, jobs, f.Config.Parallel))
}

// lanes gives arrays of so many tasks each what is left of parallel, with those that
// are reserved already; 0 where none is, and where there is no limit.
func (f *Follower) lanes(tasks []int, have int) []int {
	if f.Config.Parallel == 0 {
		return make([]int, len(tasks))
	}
	want := 0
	for _, n := range tasks {
		want += n
	}
	return parallels(have+f.reserve(max(0, want-have)), tasks)
}

// reserve takes slots for this order.
func (f *Follower) reserve(want int) int {
	return f.Slots.take(f.Config.Address, f.Order.ID, f.Config.Parallel, f.beside, want)
}

// widen lets arrays that are in the queue have what others have left free.
func (f *Follower) widen(ctx context.Context, jobs []Job) error {
	if f.Config.Parallel == 0 || f.rigid || f.crowded > 0 {
		return nil
	}
	queued := inQueue(jobs)
	for i := range f.batches {
		b := &f.batches[i]
		if b.Most == 0 || !jobID.MatchString(b.Job) || queued[b.Job] <= b.Most {
			continue
		}
		n := f.reserve(queued[b.Job] - b.Most)
		if n == 0 {
			return nil
		}
		// Written down first: a coordinator that dies here counts rather too many.
		b.Most += n
		if err := f.Order.writeBatches(f.batches); err != nil {
			return err
		}
		if _, err := f.Scheduler.run(ctx, "scontrol", "update", "JobId="+b.Job, "ArrayTaskThrottle="+strconv.Itoa(b.Most)); err != nil {
			f.rigid = true // fewer run than might
			f.Work.Say("debug", err.Error())
			b.Most -= n
			return f.Order.writeBatches(f.batches)
		}
	}
	return nil
}

// postpone keeps shards for when others have ended.
func (f *Follower) postpone(shards []int) {
	for _, s := range shards {
		f.shards[s].due = true
	}
	f.crowded += len(shards)
	if !f.crowdedTold {
		f.crowdedTold = true
		f.Work.Say("info", fmt.Sprintf("%s in no queue yet, since parallel of %s is %d and others of its tasks are there: each is submitted when one of them has ended",
			theyAre(f.crowded), f.Config.Address, f.Config.Parallel))
	}
}
