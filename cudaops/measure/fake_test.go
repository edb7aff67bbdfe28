package measure_test

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// clockStep is a device clock from a moment on.
type clockStep struct {
	At        time.Duration
	MHz       float64
	Throttled bool
}

// fakeTarget is a fake case on a fake device. The zero value of every field but
// Clock and Latency leaves its effect out.
type fakeTarget struct {
	Clock *measuretest.Clock
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
	Steps      []clockStep
	// Graph is what blocks report as used.
	Graph bool
	// Fail is called before every block with its number from 0.
	Fail func(block int) error

	Blocks     []int // executions of each block, in order
	EagerCalls int   // executions without timing
}

// Block implements measure.Target.
func (t *fakeTarget) Block(ctx context.Context, n int) (measure.Block, error) {
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
func (t *fakeTarget) Eager(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.EagerCalls += n
	t.Clock.Advance(time.Duration(float64(n) * t.Latency * float64(time.Second)))
	return nil
}

// gpuTarget is a case on a GPU.
type gpuTarget struct {
	GPU     *measuretest.GPU
	Latency float64 // of one execution at full clock, seconds
	Watts   float64 // above idle
	// Share is the part of the time that follows the clock.
	Share float64
	// Graph is how many executions one launch holds; 0 means 1.
	Graph int
	// Launches are the seconds that launching a graph takes beside its executions,
	// of each capture of the graphs; empty for one that takes nothing.
	Launches []float64
	// Fail is called before every burst with its number from 0.
	Fail func(burst int) error
	// Disturbed are the numbers of bursts that something else slows to half of the clock.
	Disturbed map[int]bool

	Bursts []measure.Burst
}

// Quantum implements measure.Burster.
func (t *gpuTarget) Quantum() int { return max(t.Graph, 1) }

// Captures implements measure.Capturer.
func (t *gpuTarget) Captures() int { return max(len(t.Launches), 1) }

// Burst implements measure.Burster.
func (t *gpuTarget) Burst(ctx context.Context, b measure.Burst) ([]measure.Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if t.Fail != nil {
		if err := t.Fail(len(t.Bursts)); err != nil {
			return nil, err
		}
	}
	t.Bursts = append(t.Bursts, b)
	q := t.Quantum()
	whole := func(n int) int { return (n + q - 1) / q * q }
	if b.Soak > 0 {
		t.GPU.Execute(float64(whole(b.Soak))*t.Latency, t.Watts, t.Share)
	}
	t.GPU.Clock.Advance(15 * time.Microsecond) // queueing
	ready, err := t.GPU.Ready(ctx)
	if err != nil {
		return nil, err
	}
	if b.Warm > 0 {
		t.GPU.Execute(float64(whole(b.Warm))*t.Latency, t.Watts, t.Share)
	}
	var out []measure.Block
	for range b.Blocks {
		n := whole(b.Executions)
		before := t.GPU.Cycles
		s := t.GPU.Execute(float64(n)*t.Latency, t.Watts, t.Share)
		clock := (t.GPU.Cycles - before) / s
		if len(t.Launches) > 0 {
			launching := float64(n/q) * t.Launches[b.Capture%len(t.Launches)]
			t.GPU.Clock.Advance(time.Duration(launching * 1e9))
			s += launching
		}
		if t.GPU.Noise > 0 {
			s *= math.Max(0.5, 1+t.GPU.Noise*t.GPU.Rand.NormFloat64())
		}
		if t.Disturbed[len(t.Bursts)-1] {
			s, clock = 2*s, clock/2
		}
		out = append(
			out,
			measure.Block{Seconds: s, Executions: n, ClockMHz: clock, ReadyMHz: ready, UsedGraph: true},
		)
	}
	return out, nil
}

// Block implements measure.Target.
func (t *gpuTarget) Block(ctx context.Context, n int) (measure.Block, error) {
	b, err := t.Burst(ctx, measure.Burst{Executions: n, Blocks: 1})
	if err != nil {
		return measure.Block{}, err
	}
	return b[0], nil
}
