package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

// ErrTimer is wrapped by errors about invalid times: zero, negative or not finite.
var ErrTimer = errors.New("the timer cannot be right")

// Eager is implemented by targets that can execute without a captured graph;
// the reference protocol warms up that way.
type Eager interface {
	// Eager executes n times without a graph and without timing.
	Eager(ctx context.Context, n int) error
}

const (
	// maxExecutions bounds one block.
	maxExecutions = 1 << 24
	// maxShort bounds the blocks of a pass that are thrown away for being short.
	maxShort = 8
)

// Once measures one prepared case from beginning to end, with nothing in
// between: for devices where neighbours do not disturb each other. The error is
// the context's, the target's, or wraps ErrTimer.
func Once(ctx context.Context, t Target, c Clock, s Settings) (Measured, error) {
	if err := s.Validate(); err != nil {
		return Measured{}, err
	}
	if s.Protocol == ProtocolReference {
		return reference(ctx, t)
	}
	return (&once{ctx: ctx, target: t, clock: c, s: s}).measure()
}

// measure makes passes until they agree.
func (o *once) measure() (Measured, error) {
	for !o.done() {
		if err := o.pass(); err != nil {
			return Measured{}, err
		}
	}
	return o.result(), nil
}

// done reports whether there are enough passes and they agree.
func (o *once) done() bool {
	n := len(o.medians)
	counted := o.medians
	if o.fastest {
		counted = slices.Sorted(slices.Values(counted))[:min(n, 2)]
	}
	return n >= o.s.Passes && (n >= o.s.MaxPasses || Spread(counted) <= o.s.PassTolerance)
}

// once is the state of one adaptive measurement.
type once struct {
	ctx    context.Context
	target Target
	clock  Clock
	s      Settings
	// fastest lets the fastest pass count.
	fastest bool

	perExec    float64   // best estimate of one execution, seconds
	samples    []float64 // seconds per execution, all passes
	medians    []float64 // of the passes
	blocks     []float64 // seconds of the blocks that count
	clocks     []float64 // known clocks of the blocks that count
	executions int
	throttled  *bool // nil if unknown
	eager      bool  // some counted block did not use a graph
}

// block times n executions and checks what came back.
func (o *once) block(n int) (Block, error) {
	b, err := timed(o.ctx, o.target, n)
	if err != nil {
		return b, err
	}
	o.executions += b.Executions
	o.perExec = b.Seconds / float64(b.Executions)
	return b, nil
}

// timed times n executions, or as many as the target makes of them: the block's
// Executions is never 0.
func timed(ctx context.Context, t Target, n int) (Block, error) {
	if err := ctx.Err(); err != nil {
		return Block{}, err
	}
	b, err := t.Block(ctx, n)
	if err != nil {
		return b, err
	}
	if b.Executions <= 0 {
		b.Executions = n
	}
	if !(b.Seconds > 0) || math.IsInf(b.Seconds, 0) {
		return b, fmt.Errorf("%w: %v s for %d executions", ErrTimer, b.Seconds, b.Executions)
	}
	return b, nil
}

// pass visits the case once: gap, warm-up, samples.
func (o *once) pass() error {
	if gap := seconds(o.s.IdleGapSeconds); gap > 0 {
		if err := o.clock.Sleep(o.ctx, gap); err != nil {
			return err
		}
	}
	if err := o.warmup(); err != nil {
		return err
	}
	first := len(o.samples)
	began := o.clock.Now()
	short := 0
	for {
		n := o.perBlock()
		b, err := o.block(n)
		if err != nil {
			return err
		}
		if b.Seconds < 0.5*o.s.MinBlockSeconds && n < maxExecutions && short < maxShort {
			// The estimate came from a slower state; a block this short would
			// count the timer's steps.
			short++
			continue
		}
		o.count(b)
		mine := o.samples[first:]
		switch {
		case len(mine) < o.s.MinSamples:
			continue
		case len(mine) < o.s.MaxSamples && RelStdev(mine) > o.s.TargetRelStdev &&
			o.clock.Now()-began < seconds(o.s.MaxPassSeconds):
			continue
		case o.s.Power && o.clock.Now()-began < seconds(o.s.PowerMinSeconds):
			continue
		}
		if o.fastest {
			o.medians = append(o.medians, Percentile(mine, 0.25))
		} else {
			o.medians = append(o.medians, Median(mine))
		}
		return nil
	}
}

// warmup executes until the warm-up time is over and an estimate exists.
func (o *once) warmup() error {
	began := o.clock.Now()
	n := 1
	if o.perExec > 0 {
		n = o.perBlock()
	}
	for {
		b, err := o.block(n)
		if err != nil {
			return err
		}
		// The first execution often pays for loading code; a block long enough
		// to estimate from follows before anything counts.
		long := b.Seconds >= 0.1*o.s.MinBlockSeconds || n >= maxExecutions
		if long && o.clock.Now()-began >= seconds(o.s.WarmupSeconds) {
			return nil
		}
		n = min(max(2*n, 1), o.perBlock())
	}
}

// perBlock is how many executions make a block long enough.
func (o *once) perBlock() int {
	n := math.Ceil(o.s.MinBlockSeconds / o.perExec)
	return int(min(max(n, 1), maxExecutions))
}

func (o *once) count(b Block) {
	o.samples = append(o.samples, b.Seconds/float64(b.Executions))
	o.blocks = append(o.blocks, b.Seconds)
	if b.ClockMHz > 0 {
		o.clocks = append(o.clocks, b.ClockMHz)
	}
	if b.Throttled != nil {
		is := *b.Throttled || o.throttled != nil && *o.throttled
		o.throttled = &is
	}
	o.eager = o.eager || !b.UsedGraph
}

func (o *once) result() Measured {
	latency := Median(o.medians)
	if o.fastest {
		latency = slices.Min(o.medians)
	}
	r := Measured{
		Latency:     latency * 1e3,
		Samples:     len(o.samples),
		RelStdev:    Scatter(o.samples),
		P10:         Percentile(o.samples, 0.1) * 1e3,
		P90:         Percentile(o.samples, 0.9) * 1e3,
		Passes:      len(o.medians),
		PassSpread:  Spread(o.medians),
		Executions:  o.executions,
		Throttled:   o.throttled,
		UsedGraph:   !o.eager,
		BlockMillis: Median(o.blocks) * 1e3,
		Protocol:    ProtocolAdaptive,
	}
	if len(o.clocks) > 0 {
		r.ClockMHz = Median(o.clocks)
	}
	return r
}

// The counts of the reference protocol.
const (
	referenceWarmups = 3
	referenceRuns    = 6
)

// Counted is implemented by targets whose callers chose the counts of the reference
// protocol.
type Counted interface {
	// Counts are the executions of the warm-up and of the mean.
	Counts() (warmups, runs int)
}

// reference is the collectors' protocol: one mean, no idea of its scatter.
func reference(ctx context.Context, t Target) (Measured, error) {
	warmups, runs := referenceWarmups, referenceRuns
	if c, ok := t.(Counted); ok {
		warmups, runs = c.Counts()
	}

	made := warmups
	if e, ok := t.(Eager); ok {
		if err := e.Eager(ctx, warmups); err != nil {
			return Measured{}, err
		}
	} else {
		first, err := timed(ctx, t, warmups)
		if err != nil {
			return Measured{}, err
		}
		made = first.Executions
	}
	w, err := timed(ctx, t, warmups)
	if err != nil {
		return Measured{}, err
	}
	b, err := timed(ctx, t, runs)
	if err != nil {
		return Measured{}, err
	}
	made += w.Executions + b.Executions
	ms := b.Seconds * 1e3 / float64(b.Executions)
	return Measured{
		Latency: ms, Samples: 1, P10: ms, P90: ms, Passes: 1,
		Executions: made,
		ClockMHz:   b.ClockMHz, Throttled: b.Throttled, UsedGraph: b.UsedGraph, LaunchBound: b.LaunchBound,
		BlockMillis: b.Seconds * 1e3, Protocol: ProtocolReference,
	}, nil
}

// SystemClock is the machine's monotonic clock.
type SystemClock struct{ epoch time.Time }

// NewSystemClock returns a clock that starts at 0.
func NewSystemClock() SystemClock { return SystemClock{epoch: time.Now()} }

// Now implements Clock.
func (c SystemClock) Now() time.Duration { return time.Since(c.epoch) }

// timerStep is the resolution of timers: an idle process waits for whole milliseconds.
const timerStep = time.Millisecond

// Sleep implements Clock. It spins for a time shorter than timerStep.
func (c SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	if d < timerStep {
		for end := c.Now() + d; c.Now() < end; {
			runtime.Gosched()
		}
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
