package gate

import (
	"aicplan/engine/stage"
	"aicplan/stages/dedupe"
)

// zeroAllowed reports whether a latency of zero is valid. In tables of differences the collector clamps
// values at zero.
func zeroAllowed(ds *stage.Dataset) bool {
	t, ok := dedupe.PerfTable(ds)
	return ok && t.ZeroLegal
}
