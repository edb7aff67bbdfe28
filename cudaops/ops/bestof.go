package ops

import (
	"context"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/measure"
)

// contest compares cuBLASLt's further algorithms with the first one. The device
// is not what it was at the case's counted visits, and every comparison heats it:
// so what is compared runs back to back, with the same burst, and only ratios
// count.
type contest struct {
	set     measure.Settings
	first   *Target
	seconds float64 // of one execution of the first
	steady  bool    // the clock does not move while algorithms are compared
	busy    float64 // seconds that the device executed
	firsts  int     // executions of the first
}

// time runs one visit and returns the seconds of one execution.
func (c *contest) time(ctx context.Context, t *Target) (float64, error) {
	b := c.set.Shape(c.seconds, t.Quantum())
	blocks, err := t.Burst(ctx, b)
	if err != nil {
		return 0, err
	}
	each := make([]float64, len(blocks))
	for i, x := range blocks {
		each[i] = x.Seconds / float64(x.Executions)
	}
	m := measure.Median(each)
	c.busy += float64(b.Total()) * m
	if t == c.first {
		c.firsts += b.Total()
	}
	return m, nil
}

// against times t between two visits to the first one, whose mean is what the
// first takes at t's time, however the clock moves; one is enough where it does
// not. before is the visit that was
// made last and is replaced by the one behind t.
func (c *contest) against(ctx context.Context, t *Target, before *float64) (ratio float64, err error) {
	m, err := c.time(ctx, t)
	if err != nil {
		return 0, err
	}
	after := *before
	if !c.steady {
		if after, err = c.time(ctx, c.first); err != nil {
			return 0, err
		}
	}
	ratio = m / ((*before + after) / 2)
	*before = after
	return ratio, nil
}

// confirm times the winner once more, since the least of many ratios is less
// than it should be: first, winner, winner, first.
func (c *contest) confirm(ctx context.Context, winner *Target) (ratio float64, err error) {
	var sum [4]float64
	for i, t := range []*Target{c.first, winner, winner, c.first} {
		if sum[i], err = c.time(ctx, t); err != nil {
			return 0, err
		}
	}
	return (sum[1] + sum[2]) / (sum[0] + sum[3]), nil
}

// alternatives looks for the fastest of the case's algorithms and notes it:
// algo_best, latency_best in milliseconds, which is the latency times the ratio
// of the two back to back, and algos, how many ran. It returns the joules above
// idle that this took.
func (h *Host) alternatives(ctx context.Context, p *prepared, r *measure.Measured) (joules float64, err error) {
	c := &contest{
		set: h.set.measure, first: p.target, seconds: r.Latency / 1e3,
		// Every visit makes its own conditions, or none heats the device.
		steady: h.set.measure.WarmupSeconds > 0 || p.watts <= h.tuning().RecoverWatts,
	}
	defer func() {
		joules = c.busy * p.watts
		r.Executions += c.firsts
	}()
	before, err := c.time(ctx, p.target)
	if err != nil {
		return 0, err
	}
	least, ran := 1.0, 1
	var winner *Target
	defer func() {
		if winner != nil {
			winner.dropGraphs()
		}
	}()
	for _, x := range p.others {
		t, err := h.dev.NewTarget(x, Graphs{Mode: h.set.measure.Graph, Seconds: h.set.measure.GraphSeconds()})
		if err != nil {
			if driver.Sticky(err) {
				return 0, err
			}
			continue // an algorithm that cannot run does not count
		}
		ratio, err := c.against(ctx, t, &before)
		if err != nil {
			t.dropGraphs()
			if driver.Sticky(err) || ctx.Err() != nil {
				return 0, err
			}
			continue
		}
		ran++
		if ratio >= least {
			t.dropGraphs()
			continue
		}
		if winner != nil {
			winner.dropGraphs()
		}
		least, winner = ratio, t
	}
	best, algo := r.Latency, p.target.c.Columns["algo"]
	if winner != nil {
		ratio, err := c.confirm(ctx, winner)
		if err != nil {
			return 0, err
		}
		if ratio < 1 {
			best, algo = r.Latency*ratio, winner.c.Columns["algo"]
		}
	}
	p.extra["latency_best"], p.extra["algo_best"], p.extra["algos"] = best, algo, ran
	return 0, nil
}
