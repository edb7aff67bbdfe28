package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
)

// Power is the mean power of a case.
type Power struct {
	watts   float64 // mean, from the energy counter where it moves
	sampled float64 // mean of the sampled instant power; 0 if unknown
	limit   float64
	method  string // "energy" or "sampled"
	seconds float64
	// energy is what an execution took, in joules, and latency how long, in
	// seconds: both of the executions between the edges. 0 without edges.
	energy, latency float64
	executed        int
}

// Executor keeps a device busy.
type Executor interface {
	// Fill queues so much work that the device stays busy until the next call,
	// and returns how many executions it added. It does not wait for them.
	Fill(ctx context.Context) (int, error)
	// Done is how many executions have ended so far.
	Done() (int, error)
}

const (
	powerPoll   = time.Millisecond // between two readings
	powerBatch  = 2e-3             // seconds of work that are queued at a time
	powerDepth  = 14               // batches that are queued at once: a reading may take some milliseconds
	powerWait   = 2                // seconds for the energy counter to move at all
	powerSettle = 0.2              // seconds before the first edge: the device warms up
)

// MeasurePower keeps a case running for at least least seconds between two
// edges of the energy counter: the counter moves in steps, so only its edges
// say when a count was true. Where it does not move, the sampled power counts.
func MeasurePower(ctx context.Context, x Executor, dev nvml.Device, clock measure.Clock, least float64) (Power, error) {
	var p Power
	draw, err := dev.Power()
	if err != nil {
		return p, fmt.Errorf("power: %w", err)
	}
	p.limit = draw.Limit
	began := clock.Now()
	var firstEdge, lastEdge time.Duration
	var firstJoules, lastJoules, before float64
	firstDone, lastDone := 0, 0
	edges, samples := 0, 0
	for {
		n, err := x.Fill(ctx)
		if err != nil {
			return p, err
		}
		p.executed += n
		now := clock.Now()
		joules, err := dev.Energy()
		if err != nil && !errors.Is(err, nvml.ErrUnsupported) {
			return p, fmt.Errorf("power: %w", err)
		}
		moved := err == nil && before > 0 && joules != before
		before = joules
		if (now - began).Seconds() >= powerSettle {
			if d, err := dev.Power(); err == nil && d.Instant > 0 {
				p.sampled += d.Instant
				samples++
			}
			if moved {
				done, err := x.Done()
				if err != nil {
					return p, err
				}
				if edges == 0 {
					firstEdge, firstJoules, firstDone = now, joules, done
				}
				lastEdge, lastJoules, lastDone = now, joules, done
				edges++
			}
		}
		measured := (lastEdge - firstEdge).Seconds()
		if edges >= 2 && measured >= least {
			break
		}
		spent := (now - began).Seconds() - powerSettle
		if edges < 2 && spent >= powerWait && spent >= least || spent >= least+powerWait {
			break // the counter stands still, or does so by now
		}
		if err := clock.Sleep(ctx, powerPoll); err != nil {
			return p, err
		}
	}
	if samples > 0 {
		p.sampled /= float64(samples)
	}
	if edges >= 2 {
		p.method, p.seconds = "energy", (lastEdge - firstEdge).Seconds()
		p.watts = (lastJoules - firstJoules) / p.seconds
		if n := lastDone - firstDone; n > 0 {
			p.energy, p.latency = (lastJoules-firstJoules)/float64(n), p.seconds/float64(n)
		}
		return p, nil
	}
	if samples == 0 {
		return p, errors.New("power: the device offers neither an energy counter that moves nor its instant power")
	}
	p.method, p.seconds, p.watts = "sampled", (clock.Now() - began).Seconds(), p.sampled
	return p, nil
}

// Columns are power and power_limit in watts, energy in joules per execution,
// power_latency the milliseconds that such an execution took, and how they were
// found. Where executions could not be counted between edges of the counter, the
// energy is unknown: power in one state times latency in another is not an energy.
func (p Power) Columns() map[string]any {
	out := map[string]any{
		"power": p.watts, "power_limit": p.limit, "power_method": p.method, "power_seconds": p.seconds,
	}
	if p.energy > 0 {
		out["energy"], out["power_latency"] = p.energy, p.latency*1e3
	}
	if p.sampled > 0 {
		out["power_sampled"] = p.sampled
	}
	return out
}

// load keeps a target's device busy. It holds the device until Stop.
type load struct {
	t      *Target
	batch  int // executions of one batch
	queued int // batches so far
	sizes  [powerDepth]int
	// ended executions of batches that left the ring.
	ended int
}

// startLoad begins a load of executions that take so many seconds each.
func (t *Target) startLoad(perExecution float64) *load {
	t.dev.busy.Lock()
	return &load{t: t, batch: max(1, min(int(powerBatch/perExecution), 64*t.Quantum()))}
}

// Fill implements Executor: a batch's event says when it is done and another
// may follow.
func (l *load) Fill(ctx context.Context) (executed int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d := l.t.dev
	for range powerDepth {
		done := d.events[l.queued%powerDepth]
		if l.queued >= powerDepth {
			ready, err := d.Lib.Driver.Query(done)
			if err != nil {
				return executed, err
			}
			if !ready {
				return executed, nil
			}
			l.ended += l.sizes[l.queued%powerDepth]
		}
		n, err := l.t.queue(l.batch)
		if err != nil {
			return executed, err
		}
		if err := d.Lib.Driver.Record(done, d.stream); err != nil {
			return executed, err
		}
		l.sizes[l.queued%powerDepth] = n
		l.queued++
		executed += n
	}
	return executed, nil
}

// Done implements Executor.
func (l *load) Done() (int, error) {
	n := l.ended
	for i := max(0, l.queued-powerDepth); i < l.queued; i++ {
		ready, err := l.t.dev.Lib.Driver.Query(l.t.dev.events[i%powerDepth])
		if err != nil {
			return 0, err
		}
		if !ready {
			break
		}
		n += l.sizes[i%powerDepth]
	}
	return n, nil
}

// Stop waits for what is queued and lets go of the device.
func (l *load) Stop() error {
	defer l.t.dev.busy.Unlock()
	return l.t.dev.Lib.Driver.SyncStream(l.t.dev.stream)
}

// Executed is how many executions drew the power.
func (p Power) Executed() int { return p.executed }

// Spent is the energy above idle in joules, if an idle device draws the share idle of
// its limit.
func (p Power) Spent(idle float64) float64 { return max(0, p.watts-idle*p.limit) * p.seconds }
