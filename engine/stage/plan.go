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
	// Identity identifies the data of a stage that this one depends on and the files that it wrote. It returns ""
	// if they are not known yet.
	Identity func(*Ref) string
}

// Plan describes a stage before it runs.
type Plan struct {
	Action Action
	Reason string // the reason of the action in one line
	// KeyExtra is part of the stage's key in addition to its identity and inputs. It is for stages that know it
	// only after planning, such as the sweeps of a grid or the digest of an imported file. Other stages implement
	// Keyer.
	KeyExtra any
	// Data is set if the stage has its data when the plan is made: the cases of a grid (in Planned), or an
	// imported table.
	Data *Dataset
	// Waterfall explains a grid's count; nil for other kinds.
	Waterfall *Waterfall
	// Cases counts the cases of a collect.
	Cases *CaseCounts
	// Notes are further lines of plan -v.
	Notes []string
	// Request is the request of the stage to a cluster, or nil. The plan shows its text.
	Request *Request
	// Warnings are shown to the user before the plan is applied.
	Warnings []string
	// Demands are columns that a later stage requires in every row. The engine sets them.
	Demands []string
	// Private belongs to the stage, which gets it back in RunContext.Plan.
	Private any
}

// CaseCounts counts the cases of a collect in a plan. Planned = Reuse + Collect + Hold.
type CaseCounts struct {
	Planned int `json:"planned"`
	Reuse   int `json:"reuse"`
	Collect int `json:"collect"`
	// Hold counts cases with a ledger entry that is not tried again without
	// --retry.
	Hold int `json:"hold,omitempty"`
	// Unsupported counts the cases without a kernel on the device, according to the plan. They are not tried.
	Unsupported int `json:"unsupported,omitempty"`
	// LeftOut counts the cases that --limit or --smoke leaves out. They are not part of Planned.
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
