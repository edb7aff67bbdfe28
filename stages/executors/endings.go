package executors

import (
	"context"
	"fmt"
	"slices"
)

// Endings say how those tasks of an order ended that did not finish. None of its
// jobs is in a queue.
func (o *Order) Endings(ctx context.Context, c *Config, s *Scheduler) ([]string, error) {
	batches, err := o.batches()
	if err != nil {
		return nil, err
	}
	f := &Follower{Config: c, Order: o, Scheduler: s, batches: batches}
	last := o.latest(batches)
	by := told{}
	for i, n := range last {
		if n < 0 || batches[n].Job == absent {
			continue
		}
		st, err := o.Status(i)
		if err != nil {
			st = nil // it says how it was, no more
		}
		if st != nil && st.State.Ended() && st.Attempt >= batches[n].Number*restarts {
			if st.State != Done {
				by.add(st.ending(), i)
			}
			continue
		}
		id := fmt.Sprintf("%s_%d", batches[n].Job, i-batches[n].Offset)
		known := f.accounted(ctx, id)
		if known == nil {
			known = f.described(ctx, batches[n].Job, id)
		}
		if state := known["JobState"]; state == "COMPLETED" {
			continue
		}
		by.add(f.post(i, id, known), i)
	}
	var out []string
	by.each(func(why string, shards []int) {
		out = append(out, fmt.Sprintf("%s of an earlier call: %s", taskNumbers(shards), why))
	})
	return out, nil
}

// Submitted counts the tasks that were submitted.
func (o *Order) Submitted() (int, error) {
	batches, err := o.batches()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, b := range o.latest(batches) {
		if b >= 0 && batches[b].Job != absent {
			n++
		}
	}
	return n, nil
}

// latest is the last batch of each shard, -1 where none has it.
func (o *Order) latest(batches []Batch) []int {
	out := slices.Repeat([]int{-1}, len(o.Shards))
	for n, b := range batches {
		for _, s := range b.Shards {
			out[s] = n
		}
	}
	return out
}
