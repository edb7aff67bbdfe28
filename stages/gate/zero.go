package gate

import (
	"aicplan/engine/stage"
	"aicplan/stages/dedupe"
)

// zeroAllowed says whether a latency of zero is data: tables of differences
// are clamped at zero by the collector.
func zeroAllowed(ds *stage.Dataset) bool {
	t, ok := dedupe.PerfTable(ds)
	return ok && t.ZeroLegal
}
