package stage

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
)

// Action is what apply would do with a stage.
type Action string

// The actions, each with the sign that plan prints.
const (
	ActionCollect Action = "collect" // + there is no record
	ActionReuse   Action = "reuse"   // = the record is current
	ActionStale   Action = "stale"   // ~ there is a record, and something has changed
	ActionRun     Action = "run"     // > runs if a stage that depends on it runs
	ActionReady   Action = "ready"   // . its data is known: grids, imports
	ActionUnknown Action = "unknown" // ? known after apply
	ActionNeeds   Action = "needs"   // ! its runtime is missing on this machine
)

// PlanContext is given to Planner.Plan.
type PlanContext struct {
	Address string
	Range   hcl.Range
	Store   *checkpoint.Store
	PlanDir string
	Options Options
	// Upstream returns the plan of a stage that this one refers to.
	Upstream func(*Ref) *Plan
	// Identity identifies the data of a stage before this one and the files that
	// it wrote; "" while it is not known.
	Identity func(*Ref) string
}

// Plan is what is known about a stage before it runs.
type Plan struct {
	Action Action
	Reason string // one line: why
	// KeyExtra is mixed into the stage's checkpoint key besides Fingerprint and
	// input digests; for stages that know it only after planning (a grid's
	// sweeps, an imported file's digest). See Keyer for the others.
	KeyExtra any
	// Data is set by stages that have their data at plan time: a grid's cases
	// (in Planned), an imported table.
	Data *Dataset
	// Waterfall explains a grid's count; nil for other kinds.
	Waterfall *Waterfall
	// Cases counts what collect will do.
	Cases *CaseCounts
	// Notes are further lines for -v.
	Notes []string
	// Request is what the stage asks of a cluster, where it does; its text is a
	// line of the plan.
	Request *Request
	// Warnings are lines that the user should read before applying.
	Warnings []string
	// Demands are columns that a stage behind needs of every row; the engine sets
	// them.
	Demands []string
	// Private is the stage's own, handed back in RunContext.Plan.
	Private any
}

// CaseCounts is collect's share of the plan. Planned = Reuse + Collect + Hold.
type CaseCounts struct {
	Planned int `json:"planned"`
	Reuse   int `json:"reuse"`
	Collect int `json:"collect"`
	// Hold counts cases with a ledger entry that is not tried again without
	// --retry.
	Hold int `json:"hold,omitempty"`
	// Unsupported counts cases that the plan says have no kernel on its device;
	// they are not tried.
	Unsupported int `json:"unsupported,omitempty"`
	// LeftOut counts the cases that --limit or --smoke leave out; no part of
	// Planned.
	LeftOut int `json:"left_out,omitempty"`
	// Rows is the number of rows expected; more than Collect when a case
	// sweeps.
	Rows int `json:"rows"`
	// Seconds estimates the collection; 0 when there is nothing to go by.
	Seconds float64 `json:"seconds,omitempty"`
	// Basis says what the estimate rests on.
	Basis string `json:"basis,omitempty"`
	// GPUs is how many of them are held for Seconds; 0 where none is.
	GPUs int `json:"gpus,omitempty"`
	// PerGPU is true if every GPU measures cases of its own, so that Seconds shrinks
	// with their number.
	PerGPU bool `json:"per_gpu,omitempty"`
	// NodeGPUs is the number of GPUs in a node of the system; 0 if it is unknown.
	NodeGPUs int `json:"-"`
}

// GPUHours are the hours of Seconds times the GPUs.
func (c *CaseCounts) GPUHours() float64 { return c.Seconds / 3600 * float64(c.GPUs) }

// SecondsOn returns the estimate for a machine with so many GPUs.
func (c *CaseCounts) SecondsOn(gpus int) float64 {
	if !c.PerGPU || gpus < 1 {
		return c.Seconds
	}
	return c.Seconds * float64(c.GPUs) / float64(gpus)
}

// Waterfall shows how a grid's declared combinations became cases.
type Waterfall struct {
	Declared   int64         `json:"declared"`
	Filters    []FilterCount `json:"filters,omitempty"`
	Duplicates int           `json:"duplicates,omitempty"`
	Cases      int           `json:"cases"`
	Rows       int           `json:"rows"` // with sweeps
	Axes       []AxisSize    `json:"axes,omitempty"`
	Table      arrow.Record  `json:"-"` // the cases
}

// FilterCount is one step of a waterfall.
type FilterCount struct {
	Name    string   `json:"name"`
	Reason  string   `json:"reason"`
	Dropped int64    `json:"dropped"`
	Note    string   `json:"note,omitempty"`    // "always true", ...
	Samples []string `json:"samples,omitempty"` // up to 3 dropped cases
}

// AxisSize is one axis or rows block.
type AxisSize struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}
