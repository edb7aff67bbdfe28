package ops

import (
	"context"

	"aicplan/cudaops/measure"
)

// Replays returns the target for the reference protocol. One execution is a replay of the first graph;
// blocks have the number of operations.
func (t *Target) Replays() measure.Target { return (*replays)(t) }

type replays Target

func (r *replays) Eager(ctx context.Context, n int) error { return (*Target)(r).Eager(ctx, n) }

// Block replays the first graph n times between two events, without a gate, as the collectors do.
func (r *replays) Block(ctx context.Context, n int) (measure.Block, error) {
	t := (*Target)(r)
	if err := ctx.Err(); err != nil {
		return measure.Block{}, err
	}

	d := t.dev
	d.busy.Lock()
	defer d.busy.Unlock()
	api, s := d.Lib.Driver, d.stream
	if err := d.queueStamp(0); err != nil {
		return measure.Block{}, err
	}

	if err := api.Record(d.events[0], s); err != nil {
		return measure.Block{}, err
	}

	for range n {
		t.next = 0
		if _, err := t.queue(1); err != nil {
			return measure.Block{}, err
		}
	}

	if err := api.Record(d.events[1], s); err != nil {
		return measure.Block{}, err
	}

	if err := d.queueStamp(1); err != nil {
		return measure.Block{}, err
	}

	if err := api.SyncStream(s); err != nil {
		return measure.Block{}, err
	}

	ms, err := api.Elapsed(d.events[0], d.events[1])
	if err != nil {
		return measure.Block{}, err
	}

	return measure.Block{
		Seconds: ms / 1e3, Executions: n * t.Quantum(), UsedGraph: t.UsesGraph(), ClockMHz: d.clockBetween(0, 1),
	}, nil
}
