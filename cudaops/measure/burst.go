package measure

import (
	"context"
	"math"
)

// Burst is one visit to a case that is queued as a whole: warm-up executions,
// then timed blocks with nothing between them but the reading of clocks.
type Burst struct {
	// Soak executions run ahead of everything, the reading of the ready clock
	// included: they bring the device to the state that it has under this load.
	Soak       int
	Warm       int // executions before the first block
	Executions int // of every block; a target may round up to its quantum
	Blocks     int
	// Busy is set if the device comes from work under the power cap and must not rest: a device that
	// waits between visits draws less than the cap and runs too fast in them. The blocks start at
	// once, without a reading of the ready clock, and the target may work on when it returns.
	Busy bool
	// Stop is set if the target of a Busy burst must not work on when it returns.
	Stop bool
	// Capture chooses one of several captures of the same graphs, by its number
	// modulo those that the target has.
	Capture int
}

// Capturer is a Burster that has captured its graphs several times. Captures
// differ in what a launch takes, for as long as they live, and by chance: so
// visits take turns at them, and a row is the mean over them.
type Capturer interface {
	Captures() int
}

// Burster is a case that can queue a whole visit, so that the host's own time
// is in none of its blocks.
type Burster interface {
	// Burst runs the visit and reports its blocks in order. It returns when the
	// device is idle again, or for a Busy burst, when its blocks have ended.
	Burst(ctx context.Context, b Burst) ([]Block, error)
	// Quantum is how many executions come in one piece: a graph that holds five
	// runs five. At least 1.
	Quantum() int
}

// Shape is how a case is visited whose executions take so many seconds and come
// in pieces of quantum: blocks of at least MinBlockSeconds where the device can
// queue as much, MinSamples of them, fewer where they are long. With
// WarmupSeconds so much of the case runs first.
func (s Settings) Shape(seconds float64, quantum int) Burst {
	q := max(quantum, 1)
	seconds = max(seconds, 1e-9) // a clock's step: no execution takes less
	n := int(min(max(math.Ceil(s.MinBlockSeconds/seconds/float64(q)), 1), maxLaunch)) * q
	b := Burst{Warm: q, Executions: n, Blocks: s.MinSamples}
	switch block := float64(n) * seconds; {
	case block > oneBlock:
		b.Blocks = 1
	case block > twoBlocks:
		b.Blocks = min(b.Blocks, 2)
	}
	if float64(q)*seconds > noWarmup {
		b.Warm = 0
	}
	b.Soak = int(min(math.Ceil(s.WarmupSeconds/seconds), maxExecutions))
	return b
}

// Total is how many executions the burst makes at least.
func (b Burst) Total() int { return b.Soak + b.Warm + b.Blocks*b.Executions }
