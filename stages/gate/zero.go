package gate

import (
	"strings"

	"aicplan/engine/stage"
)

// zeroAllowed says whether a latency of zero is data: tables of differences
// are clamped at zero by the collector.
func zeroAllowed(ds *stage.Dataset) bool {
	switch strings.TrimSuffix(ds.Info.Perf, "_perf") {
	case "computescale", "dsv4_csa_topk_calib", "glm5_topk_module":
		return true
	}
	return false
}
