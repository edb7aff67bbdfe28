package gate

import (
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
)

// zeroAllowed says whether a latency of zero is data: tables of differences
// are clamped at zero by the collector.
func zeroAllowed(ds *stage.Dataset) bool {
	t, ok := catalog.Lookup(ds.Info.Perf)
	return ok && t.ZeroLegal
}
