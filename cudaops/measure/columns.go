package measure

// Columns returns the result as the columns that every measured row has, ready
// for the worker protocol: latency, p10 and p90 in milliseconds, block_ms the
// median length of a timed block. What is not known is not there: sm_clock_mhz and
// ready_clock_mhz where no clock was read, rel_stdev of a single sample,
// pass_spread of a single pass.
func (r Result) Columns() map[string]any {
	row := map[string]any{
		"latency":         r.Latency,
		"samples":         r.Samples,
		"p10":             r.P10,
		"p90":             r.P90,
		"passes":          r.Passes,
		"executions":      r.Executions,
		"block_ms":        r.BlockMillis,
		"used_cuda_graph": r.UsedGraph,
		"throttled":       r.Throttled,
		"protocol":        r.Protocol,
	}
	if r.Samples > 1 { // one sample says nothing of its scatter
		row["rel_stdev"] = r.RelStdev
	}
	if r.Passes > 1 {
		row["pass_spread"] = r.PassSpread
	}
	if r.ClockMHz > 0 {
		row["sm_clock_mhz"] = r.ClockMHz
	}
	if r.ReadyMHz > 0 {
		row["ready_clock_mhz"] = r.ReadyMHz
	}
	return row
}
