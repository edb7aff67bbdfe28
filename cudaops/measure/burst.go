package measure

import "context"

// Burst is one visit to a case that is queued as a whole: warm-up executions,
// then timed blocks with nothing between them but the reading of clocks.
type Burst struct {
	// Soak executions run ahead of everything, the reading of the ready clock
	// included: they bring the device to the state that it has under this load.
	Soak       int
	Warm       int // executions before the first block
	Executions int // of every block; a target may round up to its quantum
	Blocks     int
}

// Burster is a Target that can queue a whole visit, so that the host's own time
// is in none of its blocks.
type Burster interface {
	Target
	// Burst runs the visit and reports its blocks in order. It returns when the
	// device is idle again.
	Burst(ctx context.Context, b Burst) ([]Block, error)
	// Quantum is how many executions come in one piece: a graph that holds five
	// runs five. At least 1.
	Quantum() int
}
