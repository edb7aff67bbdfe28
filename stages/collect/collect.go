// Package collect implements the stage kind "collect", which measures the cases of a grid on a runtime.
// Cases that were measured before under the same conditions are reused from the journal. Every planned
// case ends as a measurement or as a ledger row with the reason why it was not measured.
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
	"aicplan/sink/catalog"
	"aicplan/stages/executors"
	"aicplan/stages/runtimes"
	"aicplan/stages/telemetry"
	"aicplan/systems"
)

// Kind returns the collect stage kind. Its workers come from pools, which the caller closes at the end
// of the run.
func Kind(pools *runtimes.Pools) stage.Kind { return KindFor(pools, &executors.Invocation{}) }

// KindFor is like Kind for runs whose collects may be measured by other processes, which repeat the plan
// with the arguments in inv. The caller may fill in inv until a stage runs.
func KindFor(pools *runtimes.Pools, inv *executors.Invocation) stage.Kind {
	return stage.Kind{
		Name:    "collect",
		Class:   stage.Measure,
		Version: 2,
		Beside:  beside,
		Summary: "measure the cases of a grid on a runtime",
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
	// System is the system that the rows are labelled with, if the plan names one.
	System cty.Value `hcl:"system,optional"`
	// Telemetry is sampled while the cases run. It does not change the cache key.
	Telemetry cty.Value `hcl:"telemetry,optional"`
	// Executor is where the cases are measured. It does not change the cache key.
	Executor cty.Value `hcl:"executor,optional"`
	// Reference is a table with latencies of the same cases. The time is estimated from it if there is
	// no history.
	Reference cty.Value `hcl:"reference,optional"`
	// Op is the op's name in the runtime. If it is empty, the grid's op is used.
	Op string `hcl:"op,optional"`
	// Bind describes how a python runtime reaches the op: module, getter, run and so on. If it is empty,
	// the runtime finds the op by name.
	Bind cty.Value `hcl:"bind,optional"`
	// Ramp lists the sizes of the samples that must pass before all cases run. It is a list, or a ramp
	// block that also configures when a sample fails.
	Ramp []int `hcl:"ramp,optional"`
	// Weights lists columns. Cases with equal values in them run one after the other.
	Weights []string `hcl:"weights,optional"`
	// Environment lists the fields that distinguish measurements of the same case: framework, version,
	// device, or a field that the worker reports.
	Environment []string `hcl:"environment,optional"`
	// Unsupported lists the cases that have no kernel on the plan's device, by column values, with the
	// reason.
	Unsupported cty.Value `hcl:"unsupported,optional"`
	// Reads lists stages whose output files the op reads, such as exports. The rows depend on the
	// content of these files.
	Reads cty.Value `hcl:"reads,optional"`
	// ReadsFiles lists other files and folders that the op reads.
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
	rules        []Rule
	limits       limits

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
	rampGroup  int     // this many failed cases in a group with none measured stop the ramp
	groupBy    []string
	tripAfter  int
	transient  int // retries
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
		diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary,
			Detail: fmt.Sprintf(format, args...), Subject: cc.Range.Ptr()})
	}

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
			bad("Wrong binding", "bind is %s; it must be an object such as { module = ..., run = ... }.",
				c.Bind.Type().FriendlyName())
		case c.runtime != nil && c.about().Binds == "":
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
		if idle := c.Measure.unused(c.about().Measure); len(idle) > 0 {
			diags = append(diags, &hcl.Diagnostic{
				Severity: hcl.DiagWarning, Summary: "Settings without effect", Subject: cc.Range.Ptr(),
				Detail: fmt.Sprintf("Runtimes of kind %s do not use %s of the measure block; changing one would measure everything again for nothing. Remove them.",
					c.runtime.Kind, strings.Join(idle, ", ")),
			})
		}
	}

	if c.runtime != nil && c.about().FirstDeadline > 0 && (c.Deadline == nil || c.Deadline.First == nil) {
		c.limits.first = max(c.limits.floor, c.about().FirstDeadline)
	}

	return diags
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

// kind returns the kind of the runtime.
func (c *Config) kind() runtimes.Kind { return c.pools.Kind(c.runtime.Kind) }

// about returns the properties of the runtime's kind.
func (c *Config) about() *runtimes.Base { return c.kind().About() }
