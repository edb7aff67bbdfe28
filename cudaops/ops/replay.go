package ops

import (
	"context"

	"aicplan/cudaops/measure"
)

// Replays returns the target for the reference protocol. One execution is a replay of the first graph;
// blocks have the number of operations.
func (t *Target) Replays() measure.Target { return (*replays)(t) }

type replays Target

// Eager implements measure.Eager.
func (r *replays) Eager(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}

	for i := range n {
		if err := r.c.Enqueue(i%r.c.Sets, r.dev.stream); err != nil {
			return err
		}
	}
	return r.dev.Lib.Driver.SyncStream(r.dev.stream)
}

// Block replays the first graph n times between two events, without a gate, as the collectors do.
func (r *replays) Block(ctx context.Context, n int) (measure.Block, error) {
	t := (*Target)(r)
	if err := ctx.Err(); err != nil {
		return measure.Block{}, err
	}

	d := t.dev
	d.busy.Lock()
	defer d.busy.Unlock()
	_, err := d.timed(0, func() (int, error) {
		for range n {
			t.next = 0
			if _, err := t.queue(1); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	if err == nil {
		err = d.Lib.Driver.SyncStream(d.stream)
	}
	if err != nil {
		return measure.Block{}, err
	}
	return t.read(0, n*t.Quantum())
}
