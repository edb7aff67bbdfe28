// Package measuretest has a virtual clock and a programmable target, so that
// what is measured is known and no test waits.
package measuretest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"aicplan/cudaops/measure"
)

// Clock is a virtual clock that moves only on Sleep and Advance. It is safe for
// concurrent use.
type Clock struct {
	mu    sync.Mutex
	now   time.Duration
	slept time.Duration
}

// Now implements measure.Clock.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Sleep implements measure.Clock; it returns at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	c.slept += d
	return nil
}

// Advance moves the clock as an execution does.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

// Slept is the sum of all sleeps.
func (c *Clock) Slept() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slept
}

// Step is a device clock from a moment on.
type Step struct {
	At        time.Duration
	MHz       float64
	Throttled bool
}

// Target is a fake case on a fake device. The zero value of every field but
// Clock and Latency leaves its effect out.
type Target struct {
	Clock *Clock
	// Latency is the time of one execution, in seconds, at NominalMHz.
	Latency float64
	// First is what the first execution takes on top, as a cold start does.
	First float64
	// Noise is the relative standard deviation between blocks, drawn from Rand.
	Noise float64
	Rand  *rand.Rand
	// Drift scales a block's executions by a factor; it is called with the
	// number of the block from 0.
	Drift func(block int) float64
	// Resolution is the timer's step, in seconds: block times are rounded to it.
	Resolution float64
	// Launch is host time per block that the clock sees and the timer does not.
	Launch float64
	// NominalMHz and Steps are the device clock: executions take longer by
	// NominalMHz / current.
	NominalMHz float64
	Steps      []Step
	// Graph is what blocks report as used.
	Graph bool
	// Fail is called before every block with its number from 0.
	Fail func(block int) error

	Blocks     []int // executions of each block, in order
	EagerCalls int   // executions without timing
}

// Block implements measure.Target.
func (t *Target) Block(ctx context.Context, n int) (measure.Block, error) {
	if err := ctx.Err(); err != nil {
		return measure.Block{}, err
	}
	no := len(t.Blocks)
	if t.Fail != nil {
		if err := t.Fail(no); err != nil {
			return measure.Block{}, err
		}
	}
	b := measure.Block{UsedGraph: t.Graph}
	factor := 1.0
	now := t.Clock.Now()
	for _, s := range t.Steps {
		if s.At <= now {
			b.ClockMHz, b.Throttled = s.MHz, &s.Throttled
		}
	}
	if b.ClockMHz > 0 && t.NominalMHz > 0 {
		factor = t.NominalMHz / b.ClockMHz
	}
	if t.Drift != nil {
		factor *= t.Drift(no)
	}
	if t.Noise > 0 {
		factor *= math.Max(0.1, 1+t.Noise*t.Rand.NormFloat64())
	}
	b.Seconds = float64(n) * t.Latency * factor
	if no == 0 && t.EagerCalls == 0 {
		b.Seconds += t.First
	}
	if t.Resolution > 0 {
		b.Seconds = math.Max(1, math.Round(b.Seconds/t.Resolution)) * t.Resolution
	}
	t.Blocks = append(t.Blocks, n)
	t.Clock.Advance(time.Duration((b.Seconds + t.Launch) * float64(time.Second)))
	return b, nil
}

// Eager implements measure.Eager.
func (t *Target) Eager(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.EagerCalls += n
	t.Clock.Advance(time.Duration(float64(n) * t.Latency * float64(time.Second)))
	return nil
}
