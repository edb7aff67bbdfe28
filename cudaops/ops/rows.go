package ops

import (
	"maps"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// rowOf returns the row of a measured case: the columns of the measurement and of the case, bytes and
// flops of one execution, rates, the roofline time sol_ms, and reached, its ratio to the latency (1
// is the peak).
func rowOf(r measure.Measured, c *Case, p Peaks) worker.Row {
	row := worker.Row(r.Columns())
	maps.Copy(row, c.Columns)
	row["bytes"], row["flops"] = c.Bytes, c.Flops
	if r.Latency <= 0 {
		return row
	}

	if c.Bytes > 0 {
		row["gb_per_s"] = c.Bytes / r.Latency / 1e6
	}

	if c.Flops > 0 {
		row["tflop_per_s"] = c.Flops / r.Latency / 1e9
	}

	if sol := p.SpeedOfLight(c); sol > 0 {
		row["sol_ms"] = sol * 1e3
		row["reached"] = sol * 1e3 / r.Latency
	}

	return row
}
