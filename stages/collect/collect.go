// Package collect is the stage kind "collect": it measures the cases of a grid
// on a runtime. Cases that were measured before under the same conditions are
// taken from the journal; every planned case ends as a measurement or as a row
// of the ledger that says why there is none.
package collect

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
	"aicplan/stages/telemetry"
	"aicplan/systems"
)

// Kind registers the collect stage. Its workers come from pools, which the
// caller closes at the end of the run.
func Kind(pools *runtimes.Pools) stage.Kind { return KindFor(pools, &executors.Invocation{}) }

// KindFor is Kind for runs whose collects may be measured by other processes,
// which make the plan again as inv says. It may be filled in until a stage runs.
func KindFor(pools *runtimes.Pools, inv *executors.Invocation) stage.Kind {
	return stage.Kind{
		Name:     "collect",
		Measures: true,
		Tabular:  true,
		Version:  2,
		Beside:   beside,
		Summary:  "measure the cases of a grid on a runtime",
		Device:   true,
		Outputs: map[string]cty.Type{
			"measured": cty.Number,
			"reused":   cty.Number,
			"failed":   cty.Number,
			"skipped":  cty.Number,
		},
		New: func() stage.Stage {
			c := newConfig(pools)
			c.invocation = inv
			return c
		},
	}
}

// Config is a collect block.
type Config struct {
	Description string    `hcl:"description,optional"`
	Grid        cty.Value `hcl:"grid"`
	Runtime     cty.Value `hcl:"runtime"`
	// System is the system that the rows are for, where the plan names one.
	System cty.Value `hcl:"system,optional"`
	// Telemetry is watched while the cases run; it changes no key.
	Telemetry cty.Value `hcl:"telemetry,optional"`
	// Executor is where the cases are measured; it changes no key.
	Executor cty.Value `hcl:"executor,optional"`
	// Reference is a table with latencies of the same cases, which the time is
	// estimated from while there is no history.
	Reference cty.Value `hcl:"reference,optional"`
	// Op is the op's name in the runtime; empty means the grid's.
	Op string `hcl:"op,optional"`
	// Bind says how a python runtime reaches the op: module, getter, run and so
	// on. Empty means that the runtime finds it by name.
	Bind cty.Value `hcl:"bind,optional"`
	// Ramp are the sizes of the samples that must pass before everything runs: a
	// list, or a ramp block that also says when a sample fails.
	Ramp []int `hcl:"ramp,optional"`
	// Weights are columns: cases with equal values in them run one after the other.
	Weights []string `hcl:"weights,optional"`
	// Environment names what else tells measurements of a case apart: framework,
	// version, device, or a field that the worker reports.
	Environment []string `hcl:"environment,optional"`
	// Unsupported are cases that have no kernel on the plan's device, by the
	// values of their columns, with the reason.
	Unsupported cty.Value `hcl:"unsupported,optional"`
	// Reads are stages whose files the op reads, such as exports. Rows belong to
	// what these have written.
	Reads cty.Value `hcl:"reads,optional"`
	// ReadsFiles are files and folders that the op reads besides.
	ReadsFiles []string `hcl:"reads_files,optional"`
	// FailOver is the share of failed cases above which the stage fails.
	FailOver float64 `hcl:"fail_over,optional"`

	Measure  *MeasureBlock  `hcl:"measure,block"`
	RampRule *RampBlock     `hcl:"ramp,block"`
	Breaker  *BreakerBlock  `hcl:"breaker,block"`
	Retry    *RetryBlock    `hcl:"retry,block"`
	Deadline *DeadlineBlock `hcl:"deadline,block"`
	Rules    []RuleBlock    `hcl:"rule,block"`

	pools      *runtimes.Pools
	invocation *executors.Invocation
	// What Check makes of the values above.
	grid     *stage.Ref
	runtime  *stage.Runtime
	estimate *stage.Ref // of Reference
	watched  *telemetry.Config
	reads    []*stage.Ref
	readIDs  []string          // of reads, in their order; nil while one is unknown
	place    *executors.Config // nil means this process
	system   string
	spec     *systems.Spec // of System; nil without one
	bind     any
	source   atomic.Pointer[runtimes.OpFile]      // of a python op; see readSource
	assumed  atomic.Pointer[runtimes.Environment] // of the key
	met      atomic.Pointer[runtimes.Environment] // of the rows, once the stage runs
	settings measure.Settings
	blocks   map[string]cty.Value // of the runtime's kind, by name
	rules    []Rule
	limits   limits

	unsupported []unsupported
}

func newConfig(pools *runtimes.Pools) *Config {
	return &Config{
		Environment: []string{"framework", "version", "device"},
		FailOver:    1,
		pools:       pools,
	}
}

// limits is the failure policy with its defaults filled in.
type limits struct {
	rungs      []int
	rampShare  float64 // of failed cases in a rung
	rampGroup  int     // a group of so many failed cases and no other stops the ramp
	groupBy    []string
	tripAfter  int
	transient  int // further tries
	oom        int
	timeout    int
	crash      int
	floor      time.Duration
	first      time.Duration
	factor     float64
	minHistory int
}

// Check implements stage.Stage.
func (c *Config) Check(cc *stage.CheckContext) hcl.Diagnostics {
	var diags hcl.Diagnostics
	bad := func(summary, format string, args ...any) {
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: cc.Range.Ptr()})
	}
	var err error
	if c.grid, err = stage.RefOf(c.Grid); err != nil {
		bad("Wrong grid", "grid: %s.", err)
	} else if c.grid.Kind != "grid" {
		bad("Wrong grid", "grid is %s; only a grid has cases to collect.", c.grid.Address)
	}
	if c.runtime, err = stage.RuntimeOf(c.Runtime); err != nil {
		bad("Wrong runtime", "runtime: %s.", err)
	}
	if isSet(c.Reference) {
		if c.estimate, err = stage.RefOf(c.Reference); err != nil {
			bad("Wrong reference", "reference: %s.", err)
		}
	}
	if isSet(c.Telemetry) {
		block, err := stage.ServiceOf(c.Telemetry, "telemetry")
		if err == nil {
			c.watched, err = telemetry.Parse(block)
		}
		if err != nil {
			bad("Wrong telemetry", "telemetry: %s.", err)
		}
	}
	if isSet(c.Executor) {
		block, err := stage.ServiceOf(c.Executor, "executor")
		if err == nil {
			c.place, err = executors.Parse(block)
		}
		if err != nil {
			bad("Wrong executor", "executor: %s.", err)
		}
	}
	if text := c.tooFew(); text != "" {
		bad("Too few nodes", "%s.", text)
	}
	if isSet(c.System) {
		if spec, err := stage.SystemOf(c.System); err != nil {
			bad("Wrong system", "system: %s.", err)
		} else {
			c.system, c.spec = spec.Name, spec
		}
	}
	if isSet(c.Bind) {
		switch c.bind, err = runtimes.Plain(c.Bind); {
		case err != nil:
			bad("Wrong binding", "bind: %s.", err)
		case !c.Bind.Type().IsObjectType() && !c.Bind.Type().IsMapType():
			bad("Wrong binding", "bind is %s; it must be an object such as { module = ..., run = ... }.", c.Bind.Type().FriendlyName())
		case c.runtime != nil && c.kind().Binds == "":
			bad("Wrong binding", "%s is of kind %s, which takes no binding; remove bind.", c.runtime.Address, c.runtime.Kind)
		}
	}
	if err := c.checkReads(); err != nil {
		bad("Wrong reads", "reads: %s.", err)
	}
	for _, d := range c.readsElsewhere() {
		bad(d.Summary, "%s", d.Detail)
	}
	if c.unsupported, err = readUnsupported(c.Unsupported); err != nil {
		bad("Wrong unsupported", "unsupported: %s.", err)
	}
	if !(c.FailOver >= 0 && c.FailOver <= 1) {
		bad("Wrong fail_over", "fail_over is %v; it is a share between 0 and 1.", c.FailOver)
	}
	for _, problem := range c.settle() {
		bad(problem.summary, "%s", problem.detail)
	}
	if c.runtime != nil {
		c.pools.Use(c.runtime, c.hosted())
		if idle := c.Measure.unused(c.kind().RuntimeKind.Measure); len(idle) > 0 {
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagWarning, Summary: "Settings without effect", Subject: cc.Range.Ptr(),
				Detail: fmt.Sprintf("Runtimes of kind %s do not use %s of the measure block; changing one would measure everything again for nothing. Remove them.", c.runtime.Kind, strings.Join(idle, ", ")),
			})
		}
	}
	if c.runtime != nil && c.kind().FirstDeadline > 0 && (c.Deadline == nil || c.Deadline.First == nil) {
		c.limits.first = max(c.limits.floor, c.kind().FirstDeadline)
	}
	return diags
}

// hosted is the collector that the binding names; nil where it names none.
func (c *Config) hosted() *runtimes.Hosted {
	op := c.Op
	if op == "" && c.grid != nil {
		// Which op the grid has is known when it is planned; its name says as much.
		op = c.grid.Address[strings.LastIndex(c.grid.Address, ".")+1:]
	}
	if h, ok := runtimes.HostedOp(op, c.bind); ok {
		return &h
	}
	return nil
}

func isSet(v cty.Value) bool { return v != cty.NilVal && !v.IsNull() }

// Inputs implements stage.Stage.
func (c *Config) Inputs() []stage.Input {
	ref := c.grid
	if ref == nil {
		ref, _ = stage.RefOf(c.Grid)
	}
	in := []stage.Input{{Name: "grid", Ref: ref}}
	for i, r := range c.reads {
		in = append(in, stage.Input{Name: fmt.Sprintf("%s[%d]", readsWord, i), Ref: r})
	}
	return in
}

// kind is the kind of the runtime; one without anything where this program does
// not have it, which is an error elsewhere.
func (c *Config) kind() *runtimes.Kind {
	if k := c.pools.Kind(c.runtime.Kind); k != nil {
		return k
	}
	return &runtimes.Kind{}
}
