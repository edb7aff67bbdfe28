// Package collect implements the stage kind "collect", which measures the cases of a grid on a runtime.
// Cases that were measured before under the same conditions are reused from the journal. Every planned
// case ends as a measurement or as a ledger row with the reason why it was not measured.
package collect

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/stages/collect/policy"
	"aicplan/stages/collect/rows"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
	"aicplan/stages/telemetry"
	"aicplan/systems"
)

// Kind returns the collect stage kind. Its workers come from pools, which the caller closes at the end
// of the run. Collects may be measured by other processes, which repeat the plan with the arguments in inv. The caller
// may fill in inv until a stage runs.
func Kind(pools *runtimes.Pools, inv *executors.Invocation) stage.Kind {
	return stage.Kind{
		Name:    "collect",
		Class:   stage.Measure,
		Version: 2,
		Beside:  beside,
		Summary: "measure the cases of a grid on a runtime",
		Outputs: map[string]cty.Type{
			// number of cases (points, if the grid has sweeps) that have a row; measured, failed and skipped add up
			// to the planned ones
			"measured": cty.Number,
			// number of measured cases that were reused from earlier runs
			"reused": cty.Number,
			// number of cases that failed
			"failed": cty.Number,
			// number of cases that were not tried
			"skipped": cty.Number,
		},
		New: func() stage.Stage { return &Config{pools: pools, invocation: inv} },
	}
}

// Config is a collect block.
type Config struct {
	// Grid (reference) is the grid whose cases are measured.
	Grid cty.Value `hcl:"grid"`
	// Runtime (reference) measures the cases.
	Runtime cty.Value `hcl:"runtime"`
	// System (reference) is the system that the rows are labelled with. Exports and reports use it.
	System cty.Value `hcl:"system,optional"`
	// Telemetry (reference) is the telemetry block that watches the GPUs. It does not change what rows mean.
	Telemetry cty.Value `hcl:"telemetry,optional"`
	// Executor (reference) is the executor block that measures the cases. It does not change what rows mean. The
	// default is this process.
	Executor cty.Value `hcl:"executor,optional"`
	// Reference is a table with latencies of the same cases. The plan estimates the time from it if there are no
	// earlier runs.
	Reference cty.Value `hcl:"reference,optional"`
	// Op is the name of the op in the runtime. The default is the op of the grid.
	Op string `hcl:"op,optional"`
	// Bind (object) describes how the runtime runs an op that it does not have by name: Python code, or a CUDA
	// kernel.
	Bind cty.Value `hcl:"bind,optional"`
	// Ramp lists the sizes of samples that must pass before all cases run, such as `[4, 20, 100]`. A sample fails if
	// more than half of its cases fail, or two cases of a breaker group of which none is measured.
	Ramp []int `hcl:"ramp,optional"`
	// Weights lists columns. Cases with equal values in them run one after the other.
	Weights []string `hcl:"weights,optional"`
	// Unsupported (list of objects) lists cases that have no kernel on the device. `where` has columns with a value, a
	// list of values or bounds (`{ min = N, max = N }`), and products of columns with bounds (`"batch_size*isl" =
	// { min = 8193 }`); all of them must match. `reason` is kept in the ledger. Such cases are not tried, and coverage
	// does not count them.
	Unsupported cty.Value `hcl:"unsupported,optional"`
	// Reads (reference or list of references) lists stages whose files the op reads, such as exports. The rows
	// depend on the content of these files. Only runtimes of kind python without an executor have it.
	Reads cty.Value `hcl:"reads,optional"`
	// ReadsFiles lists other files and folders that the op reads, absolute or relative to the working folder. The
	// rows depend on their content; links are followed.
	ReadsFiles []string `hcl:"reads_files,optional"`

	// Measure has the settings of the measurement, see measuring.md.
	Measure *MeasureBlock `hcl:"measure,block"`
	// Breaker stops groups of cases that fail from their first case on. Without the block, all cases form one group
	// and 20 failures stop it.
	Breaker *BreakerBlock `hcl:"breaker,block"`
	// Retry configures how often a failed case is tried again, by cause.
	Retry *RetryBlock `hcl:"retry,block"`
	// Deadline configures how long a case may take.
	Deadline *DeadlineBlock `hcl:"deadline,block"`
	// Rules (labelled blocks) classify failures by their text.
	Rules []RuleBlock `hcl:"rule,block"`

	pools      *runtimes.Pools
	invocation *executors.Invocation
	// Check sets the fields below from the values above.
	grid     *stage.Ref
	tables   *catalog.Catalog
	runtime  *stage.Runtime
	estimate *stage.Ref // of Reference
	watched  *telemetry.Config
	reads    []*stage.Ref
	readIDs  []string // of reads, in the same order; nil if one is unknown
	pinned   bool     // set when the stage runs: files must not change any more

	readsFilesID string            // digest of ReadsFiles
	kindFiles    []string          // files that the runtime's kind reads
	kindFilesID  string            // their digest
	place        *executors.Config // nil means this process
	system       string
	spec         *systems.Spec // of System; nil if not set
	bind         any
	code         atomic.Pointer[runtimes.Code]        // of the op, as planned or as measured with
	assumed      atomic.Pointer[runtimes.Environment] // of the cache key
	measuredIn   atomic.Pointer[runtimes.Environment] // of the rows, set when the stage runs
	settings     measure.Settings
	blocks       map[string]cty.Value // defined by the runtime's kind, by name
	rules        []policy.Rule
	limits       policy.Limits

	unsupported []unsupported
}

// Check implements stage.Stage.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := stage.Errors(&diags, cc.Range)

	c.tables = cc.Tables
	var err error
	if c.grid, err = stage.RefOf(c.Grid); err != nil {
		bad("Wrong grid", "grid: %s.", err)
	} else if c.grid.Kind != "grid" {
		bad("Wrong grid", "grid is %s; only a grid has cases to collect.", c.grid.Address)
	}

	if c.runtime, err = stage.RuntimeOf(c.Runtime); err != nil {
		bad("Wrong runtime", "runtime: %s.", err)
	}

	if stage.IsSet(c.Reference) {
		if c.estimate, err = stage.RefOf(c.Reference); err != nil {
			bad("Wrong reference", "reference: %s.", err)
		}
	}

	if stage.IsSet(c.Telemetry) {
		c.watched = service(&diags, cc.Range, c.Telemetry, "telemetry", telemetry.Parse)
	}
	if stage.IsSet(c.Executor) {
		c.place = service(&diags, cc.Range, c.Executor, "executor", executors.Parse)
	}
	if text := c.tooFew(); text != "" {
		bad("Too few nodes", "%s.", text)
	}

	if stage.IsSet(c.System) {
		if spec, err := stage.SystemOf(c.System); err != nil {
			bad("Wrong system", "system: %s.", err)
		} else {
			c.system, c.spec = spec.Name, spec
		}
	}

	if stage.IsSet(c.Bind) {
		switch c.bind, err = runtimes.Plain(c.Bind); {
		case err != nil:
			bad("Wrong binding", "bind: %s.", err)
		case !c.Bind.Type().IsObjectType() && !c.Bind.Type().IsMapType():
			bad("Wrong binding", "bind is %s; it must be an object such as { module = ..., run = ... }.",
				c.Bind.Type().FriendlyName())
		case c.runtime != nil && c.kind().Binds == "":
			bad("Wrong binding", "%s is of kind %s, which takes no binding; remove bind.", c.runtime.Address, c.runtime.Kind)
		case c.runtime != nil && c.kind().CheckWords != nil:
			if err := c.kind().CheckWords(c.bind.(map[string]any)); err != nil {
				bad("Wrong binding", "bind: %s.", err)
			}
		}
		if b, ok := c.bind.(map[string]any); ok && len(b) == 0 {
			c.bind = nil
		}
	}

	if err := c.checkReads(); err != nil {
		bad("Wrong reads", "reads: %s.", err)
	}

	if c.unsupported, err = readUnsupported(c.Unsupported); err != nil {
		bad("Wrong unsupported", "unsupported: %s.", err)
	}

	c.settle(bad)

	if c.runtime != nil {
		c.pools.Use(c.runtime, c.hosted())
		if idle := c.Measure.unused(c.kind().Measure); len(idle) > 0 {
			diags = append(diags, stage.WarningAt(cc.Range, "Settings without effect",
				"Runtimes of kind %s do not use %s of the measure block; changing one would measure everything again for "+
					"nothing. Remove them.", c.runtime.Kind, strings.Join(idle, ", "))...)
		}
	}

	return diags
}

// service parses the block that an attribute refers to. Its errors are at the block, those of the reference at at.
func service[T any](diags *hcl.Diagnostics, at hcl.Range, v cty.Value, kind string,
	parse func(*stage.Service) (T, error)) (out T) {
	block, err := stage.ServiceOf(v, kind)
	if err == nil {
		at = block.Range
		out, err = parse(block)
	}
	if err != nil {
		stage.AddError(diags, at, "Wrong "+kind, "%s: %s.", kind, err)
	}
	return out
}

// hosted returns the collector that the binding names, or nil if it names none.
func (c *Config) hosted() *runtimes.Hosted {
	op := c.Op
	if op == "" && c.grid != nil {
		// The grid's op is known only when it is planned. Until then, use the grid's name.
		op = c.grid.Address[strings.LastIndex(c.grid.Address, ".")+1:]
	}
	if h, ok := runtimes.HostedOp(op, c.bind); ok {
		return &h
	}
	return nil
}

// Inputs implements stage.Stage.
func (c *Config) Inputs() []stage.Input {
	return append([]stage.Input{{Name: "grid", Ref: c.grid}}, stage.InputsOf(readsWord, c.reads, false)...)
}

// kind returns the kind of the runtime.
func (c *Config) kind() *runtimes.Kind { return c.pools.Kind(c.runtime.Kind) }

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
