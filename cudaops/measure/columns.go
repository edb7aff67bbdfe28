package measure

// Columns returns the result as the columns that every measured row has, ready
// for the worker protocol: latency, p10 and p90 in milliseconds, block_ms the
// median length of a timed block. Unknown values are left out: clocks that could not
// be read, rel_stdev of one sample, throttled if the driver was not queried, launch_bound of graphs.
func (r Measured) Columns() map[string]any {
	row := map[string]any{
		"latency":         r.Latency,
		"samples":         r.Samples,
		"p10":             r.P10,
		"p90":             r.P90,
		"passes":          r.Passes,
		"executions":      r.Executions,
		"block_ms":        r.BlockMillis,
		"used_cuda_graph": r.UsedGraph,
		"protocol":        r.Protocol,
	}
	if r.ClockMHz > 0 {
		row["sm_clock_mhz"] = r.ClockMHz
	}
	if r.ReadyMHz > 0 {
		row["ready_clock_mhz"] = r.ReadyMHz
	}
	if r.Passes > 1 {
		row["pass_spread"] = r.PassSpread
	}
	if r.RelStdev != nil {
		row["rel_stdev"] = *r.RelStdev
	}
	if r.Throttled != nil {
		row["throttled"] = *r.Throttled
	}
	if r.LaunchBound != nil {
		row["launch_bound"] = *r.LaunchBound
	}
	if r.OperatingPoint != "" {
		row["operating_point"] = r.OperatingPoint
	}
	if r.ClockSeenMHz > 0 {
		row["clock_seen_mhz"] = r.ClockSeenMHz
	}
	if r.ClockSlope != nil {
		row["clock_slope"] = *r.ClockSlope
	}
	return row
}
