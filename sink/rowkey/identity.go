package rowkey

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
)

// measurements are the columns of perf files and measurement tables, besides the
// metrics of the catalog, that say what was found, not what was asked.
var measurements = []string{
	"power", "power_limit", "energy", "transmit_us", "notify_us", "attachments",
	"samples", "rel_stdev", "p10", "p90", "passes", "pass_spread", "executions", "block_ms", "protocol", "operating_point", "clock_seen_mhz", "clock_slope", "parts",
	"used_cuda_graph", "sm_clock_mhz", "throttled", "bytes", "gbps", "flops", "tflops", "busbw_gbps", "algbw_gbps",
	"attempts", "worker", "device_uuid", "started_at", "seconds", "case_id",
}

// provenance are the columns that say who measured; they are part of a row's
// identity but not of its shape.
var provenance = []string{"framework", "version", "device"}

// IsMeasurement says whether a column holds results or the circumstances of
// one measurement rather than a part of the row's identity.
func IsMeasurement(column string) bool {
	return slices.Contains(measurements, column) || catalog.IsMetric(column)
}

// Identity lists the columns of a schema that are not measurements: the whole
// identity of a row as upstream's tools see it.
func Identity(schema *arrow.Schema) []string {
	var out []string
	for _, f := range schema.Fields() {
		if !IsMeasurement(f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// Shape is Identity without the columns that say who measured and with which
// kernel: what a row answers.
func Shape(schema *arrow.Schema) []string {
	return slices.DeleteFunc(Identity(schema), func(c string) bool {
		return c == "kernel_source" || slices.Contains(provenance, c)
	})
}
