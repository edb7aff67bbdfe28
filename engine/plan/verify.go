package plan

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
)

// Damaged reads every table of the reused stages and returns how many do not match their digests. The store
// reports these and renames them, so that the next plan runs their stages.
func (p *Plan) Damaged(ctx context.Context) int {
	var digests []string
	for _, s := range p.Stages {
		if s.Record != nil && s.Action == stage.ActionReuse {
			digests = append(digests, s.Record.Outputs.Digests()...)
		}
	}

	slices.Sort(digests)
	var damaged atomic.Int64
	var g errgroup.Group
	g.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for _, d := range slices.Compact(digests) {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			// The reader of the table reports other errors.
			if _, err := p.Store.GetBytes(d); errors.Is(err, checkpoint.ErrCorrupt) {
				damaged.Add(1)
			}
			return nil
		})
	}

	_ = g.Wait() // no call returns an error
	return int(damaged.Load())
}
