package catalog

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// measurements are the columns of perf files and measurement tables, besides the metrics of
// the catalog, that hold results and the circumstances of one measurement.
var measurements = []string{
	"power", "power_limit", "energy", "transmit_us", "notify_us", "attachments",
	"samples", "rel_stdev", "p10", "p90", "passes", "pass_spread", "executions", "block_ms", "protocol", "operating_point",
	"clock_seen_mhz", "clock_slope", "parts",
	"used_cuda_graph", "sm_clock_mhz", "throttled", "bytes", "gbps", "flops", "tflops", "busbw_gbps", "algbw_gbps",
	"attempts", "worker", "device_uuid", "started_at", "seconds", "case_id",
}

// provenance are the columns that name what measured a row, and the kernel that ran.
var provenance = []string{"framework", "version", "device", "kernel_source"}

// Shape lists the columns of a schema that name what was measured, without results and
// without provenance.
func Shape(schema *arrow.Schema) []string {
	var out []string
	for _, f := range schema.Fields() {
		if !isMeasurement(f.Name) && !slices.Contains(provenance, f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// isMeasurement reports whether a column holds results or circumstances of one measurement.
func isMeasurement(column string) bool {
	return slices.Contains(measurements, column) || builtIn().metrics[column]
}
