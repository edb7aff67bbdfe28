package collect

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// measuredColumns lists the columns that the workers of this binary add to a row besides the metrics.
// They are described in docs/reference/measuring.md, and a test compares the two lists.
var measuredColumns = strings.Fields(`passes pass_spread executions block_ms protocol operating_point ready_clock_mhz
	clock_seen_mhz clock_slope
	bytes flops gb_per_s tflop_per_s gflop_per_s sol_ms reached cache algo waves padded_m
	latency_hot relative_error temperature_c clock_reasons mem_clock_mhz neighbours
	power_method power_seconds power_sampled power_latency products chained parts threads
	method algbw_gb_s busbw_gb_s rank_spread checked nodes gpus_per_node node_names device_uuids
	nccl_version nccl_env access
	imported_from`)

var _ stage.Forecaster = (*Config)(nil)

// Forecast implements stage.Forecaster.
func (c *Config) Forecast(at hcl.Range, in stage.Forecasts) (*stage.Forecast, hcl.Diagnostics) {
	diags := c.noLatencies(at, in(c.estimate))
	g := in(c.grid)
	if g == nil {
		return nil, diags
	}

	f := &stage.Forecast{Info: g.Info, Origin: c.runtime.Address, Open: !c.kind().Closed, Rows: g.Rows}
	f.Info.Perf = c.perfTable(g.Info.Perf)
	f.Info.Framework, f.Info.System, f.Info.Runtime = c.runtime.Framework, c.system, c.runtime.Name
	add := func(names ...string) {
		for _, n := range names {
			if !slices.Contains(f.Columns, n) {
				f.Columns = append(f.Columns, n)
			}
		}
	}

	add(g.Columns...)
	add(rows.Stages...)
	for _, field := range c.schema(g.Info.Perf, g.Info.Op) {
		add(field.Name)
	}

	add(c.kind().Columns...)
	if len(c.kind().Measure) > 0 {
		add(measuredColumns...)
	}

	return f, diags
}

// noLatencies returns an error if the attribute reference names a table without latencies.
func (c *Config) noLatencies(at hcl.Range, f *stage.Forecast) hcl.Diagnostics {
	if f == nil {
		return nil
	}

	metric := f.Info.Tables().SchemaOf(f.Info.Perf).Primary()
	_, isTime := timeUnits[metric.Unit]
	failed := f.Cases && c.estimate.Kind != "grid" // it may have latencies after a retry
	if failed || isTime && !f.Cases && (f.Open || slices.Contains(f.Columns, metric.Name)) {
		return nil
	}
	return stage.ErrorAt(at, "Reference without latencies",
		"reference is %s, which has no latencies to estimate the time from. Name an import or a collect of the same cases, "+
			"or remove it.", c.estimate.Address)
}
