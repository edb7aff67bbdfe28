package ops

import (
	"context"
	"errors"
	"fmt"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
)

// Power is the measured power of a case.
type Power struct {
	watts   float64 // mean, from the energy counter if it changes
	sampled float64 // mean of the sampled instant power; 0 if unknown
	limit   float64
	method  string // "energy" or "sampled"
	seconds float64
	// energy and latency are those of one execution between the edges, in joules and seconds. They
	// are 0 without edges.
	energy, latency float64
	Executed        int // executions in all
}

// Executor keeps a device busy.
type Executor interface {
	// Fill queues enough work to keep the device busy until the next call and returns the number of
	// added executions. It does not wait for them.
	Fill(ctx context.Context) (int, error)
	// Done returns the number of executions that have ended.
	Done() (int, error)
}

const (
	powerPoll   = time.Millisecond // between two readings
	powerBatch  = 2e-3             // seconds of work in a batch
	powerDepth  = 14               // queued batches; a reading may take some milliseconds
	powerWait   = 2                // seconds to wait for a change of the energy counter
	powerSettle = 0.2              // seconds before the first edge, for the device to warm up
)

// MeasurePower keeps a case running for at least least seconds between two edges of the energy
// counter. The counter changes in steps, so its value is exact only at an edge. If it does not
// change, the mean of the sampled power is used.
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

		p.Executed += n
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
			break // the counter does not change, or no longer
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

// Columns returns power and power_limit in watts, energy in joules per execution, power_latency in
// milliseconds per execution, and the method. The energy is unknown if the executions between edges
// could not be counted, because power and latency of different states have no common energy.
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

// load keeps a target's device busy. It locks the device until Stop.
type load struct {
	t      *Target
	batch  int // executions of one batch
	queued int // number of batches
	sizes  [powerDepth]int
	// ended is the number of executions in batches that have left the ring.
	ended int
}

// startLoad starts a load of executions of the given time in seconds.
func (t *Target) startLoad(perExecution float64) *load {
	t.dev.busy.Lock()
	return &load{t: t, batch: max(1, min(int(powerBatch/perExecution), 64*t.Quantum()))}
}

// Fill implements Executor. A batch is queued when the event of an earlier one is done.
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

// Stop waits for the queued work and unlocks the device.
func (l *load) Stop() error {
	defer l.t.dev.busy.Unlock()
	return l.t.dev.Lib.Driver.SyncStream(l.t.dev.stream)
}

// Spent returns the energy above idle in joules.
func (p Power) Spent() float64 { return max(0, p.watts-IdleShare*p.limit) * p.seconds }
