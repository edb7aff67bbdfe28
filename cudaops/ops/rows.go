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
	bytes := c.Bytes + c.LinkBytes
	row["bytes"], row["flops"] = bytes, c.Flops
	if r.Latency <= 0 {
		return row
	}

	if bytes > 0 {
		row["gb_per_s"] = bytes / r.Latency / 1e6
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
