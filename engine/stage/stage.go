// Package stage is the contract between the engine and the stage kinds: what
// a kind registers, what a stage is told when it is planned and run, and what
// it hands to the stages behind it. The engine imports this package and no
// concrete stage; every package under stages/ implements it.
package stage

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/sink/catalog"
)

// Kind describes one stage kind. stages.All lists every kind explicitly.
type Kind struct {
	// Name is the block type in HCL, for example "gate".
	Name string
	// Version is bumped when the same config comes to mean different data; it
	// is part of every checkpoint key of the kind.
	Version int
	// Code identifies the code that makes the stage's data, for kinds whose data
	// costs nothing to make again; see CodeOf. It is part of every checkpoint key
	// of the kind. Nil for kinds that measure.
	Code func() string
	// Beside are the attributes and blocks that do not shape the stage's data,
	// by their paths as Values has them, each with the reason why. Everything
	// else is part of every checkpoint key.
	Beside map[string]string
	// Summary is one line for describe, docs and error messages.
	Summary string
	// Class says what the stages do in a plan.
	Class Class
	// BareNames is true if expressions in the body may use names that the stage
	// itself binds (axes of a grid, aggregates of a gate's assert). The stage then
	// implements BodyDecoder and reports unknown names itself.
	BareNames bool
	// Demands are columns that every row must have that reaches a stage of the kind.
	Demands []string
	// Outputs are the attributes that other expressions may read once the
	// stage ran (rows, digest and address exist on every stage).
	Outputs map[string]cty.Type
	// New returns a config with its defaults set: a pointer to a struct with
	// gohcl tags.
	New func() Stage
}

// Stage is the decoded config of one stage instance. It is decoded anew for
// every instance and never shared between goroutines.
type Stage interface {
	// Check reports what decoding alone cannot find. It sees only its own
	// config and must not touch devices, network or files.
	Check(*CheckContext) hcl.Diagnostics
	// Inputs lists the datasets that the stage reads, in a fixed order.
	Inputs() []Input
	// Run does the work. A non-nil error means that the stage as a whole
	// failed; failed cases are rows of the ledger, failed gates an Outcome. If Run
	// returns an error, only Outcome.Counts is used: rows that were stored before.
	Run(context.Context, *RunContext) (*Outcome, error)
}

// BodyDecoder is implemented by stages whose body gohcl cannot decode alone.
type BodyDecoder interface {
	DecodeBody(body hcl.Body, eval Evaluator) hcl.Diagnostics
	// Words returns the attributes and blocks that the body may have.
	Words() Vocabulary
}

// Planner is implemented by stages that know more at plan time than "run" or
// "reuse": grids and imports produce their data then, collect counts what is
// measured already.
type Planner interface {
	Plan(context.Context, *PlanContext) (*Plan, hcl.Diagnostics)
}

// Keyer is implemented by stages whose data depends on more than config and
// inputs, for example on the environment that measures. It is asked before
// Planner, must be quick, and must not start what takes seconds.
type Keyer interface {
	KeyExtra(context.Context, *PlanContext) (any, hcl.Diagnostics)
}

// Judge is implemented by stages whose block says how an outcome is judged
// (limits on failures and deviations) and not only the data. It is asked
// about a record that is current, and judges it again from the facts in it. Where
// that comes to something else than the record says, the text says what, and the
// stage runs, and has nothing to measure.
type Judge interface {
	Judge(*checkpoint.StageRecord) (Status, string)
}

// DeviceUser is implemented by stages that own devices and do not always use
// those of this machine, or that keep something loaded on them.
type DeviceUser interface {
	// Elsewhere reports whether the stage works on other machines. It then waits
	// for no device of this one.
	Elsewhere() bool
	// Warm names what the stage keeps loaded when it ends, such as an engine with
	// its model, or is "". Of the stages that are ready, one with the name of the
	// last one starts first.
	Warm() string
}

// FileWriter is implemented by stages whose config determines which files they
// write.
type FileWriter interface {
	// Files returns the files that the stage replaces as a whole, relative to the
	// output folder.
	Files() []string
	// Target returns a name for the table that the stage writes, to compare and to
	// show, or "" if it is not known or there is none. shared is true if the stage
	// accepts that others write the same table.
	Target(Forecasts) (name string, shared bool)
}

// Evaluator gives access to the values of a plan by reference.
type Evaluator interface {
	// Context returns an evaluation context that holds the values of the
	// references in exprs. Roots listed in bound are the caller's own and left
	// out; any other unknown root is a diagnostic with suggestions.
	Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics)
}

// Input is one dataset that a stage reads.
type Input struct {
	// Name is the config attribute, for example "input" or "reference".
	Name string
	Ref  *Ref
	// Reference is true if the stage only compares with the dataset.
	Reference bool
}

// Dataset is what flows along an edge of the DAG. Records are shared between
// readers and must not be changed.
type Dataset struct {
	// Table holds measurements (or the imported rows); nil until there are any.
	Table arrow.Record
	// Ledger has one row per planned case without a measurement: see
	// LedgerSchema. Nil when nothing was planned.
	Ledger arrow.Record
	// Planned holds the cases of the grid that the rows answer; nil for data
	// that came from files.
	Planned arrow.Record
	Info    Info
}

// Info describes a dataset as a whole. It is stored with its tables.
type Info struct {
	Op     string   `json:"op,omitempty"`         // the grid's op
	Perf   string   `json:"perf_table,omitempty"` // catalog table, e.g. gemm_perf; empty when none
	Params []string `json:"params,omitempty"`     // columns that name a case, in grid order
	// Declared is the table of the rows if the plan declares it. Perf is then its name.
	Declared  *catalog.Declaration `json:"declared_table,omitempty"`
	Framework string               `json:"framework,omitempty"`
	Version   string               `json:"version,omitempty"`
	Device    string               `json:"device,omitempty"`
	System    string               `json:"system,omitempty"` // name of the system spec, when the plan names one
	Runtime   string               `json:"runtime,omitempty"`
	Image     string               `json:"image,omitempty"`
	// ImageDigest is what the plan states, never guessed.
	ImageDigest string `json:"image_digest,omitempty"`
	// Partial says why the rows cannot be the whole grid (limit, smoke,
	// interrupted, a tripped ramp); empty when they can.
	Partial string `json:"partial,omitempty"`
	// Env is the environment as the worker reported it, sorted by name when
	// encoded: driver, cuda, library versions, hostname.
	Env map[string]string `json:"env,omitempty"`
}

// Tables returns the built-in perf tables and the declared one of the dataset.
func (i Info) Tables() *catalog.Catalog {
	if i.Declared == nil {
		return nil
	}
	c, err := catalog.New(*i.Declared)
	if err != nil {
		return nil // a declaration is checked before it gets here
	}
	return c
}

// Status says how a stage ended.
type Status string

// The ways a stage can end, from best to worst.
const (
	StatusOK          Status = "ok"
	StatusPartial     Status = "partial"     // data is missing: exit 3
	StatusNeeds       Status = "needs"       // its runtime is not the one at hand: exit 3
	StatusGateFailed  Status = "gate_failed" // exit 4
	StatusPreflight   Status = "preflight_failed"
	StatusInterrupted Status = "interrupted"
	StatusFailed      Status = "failed"
	StatusSkipped     Status = "skipped"
)

// Outcome is what a run of a stage produced.
type Outcome struct {
	Status  Status
	Message string // one line: why it is not ok, or what it did
	Data    *Dataset
	// Values are the stage's outputs by the names of Kind.Outputs.
	Values map[string]cty.Value
	Counts Counts
	// Checks are the results of gates and preflight checks.
	Checks []CheckResult
	// Artifacts are files written outside the state folder.
	Artifacts []Artifact
	// Journal is the digest of the journal that the rows came from.
	Journal string
	// NoReuse keeps the outcome out of the checkpoints: the next apply runs the
	// stage again.
	NoReuse bool
}

// Counts adds up what happened to cases (for collect) or rows (for others).
type Counts struct {
	// Cases are the grid's cases that were asked for, where a case gives several
	// rows: the counts below are of rows then. 0 where it gives one.
	Cases    int `json:"cases,omitempty"`
	Planned  int `json:"planned,omitempty"`
	Measured int `json:"measured,omitempty"` // in this run
	Reused   int `json:"reused,omitempty"`   // from the case cache
	Failed   int `json:"failed,omitempty"`
	Skipped  int `json:"skipped,omitempty"`
	Rows     int `json:"rows,omitempty"` // of the table handed on
}

// CheckResult is one check of a gate or a preflight.
type CheckResult struct {
	Name     string `json:"name"`
	Severity string `json:"severity"` // "fail" or "warn"
	// Result is "pass", "fail", "warn" (failed, but only a warning) or "skip"
	// (could not be judged; Message says why).
	Result  string `json:"result"`
	Message string `json:"message"`
	// Extent says how much the check could judge; nil for checks that judge no
	// rows, such as those of a preflight.
	*Extent
	Value string   `json:"value,omitempty"` // what was found
	Limit string   `json:"limit,omitempty"` // what was asked
	Rows  []string `json:"rows,omitempty"`  // offending rows, worst first, at most MaxCheckRows
	Fix   string   `json:"fix,omitempty"`   // what the user can do
	Pos   string   `json:"pos,omitempty"`   // file:line of the check block
	// Detail is what a check found beside its message, for reports: an object whose
	// shape is the check's.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// MaxCheckRows is how many offending rows a result lists.
const MaxCheckRows = 20

// RowsBeyond counts the offending rows that a view that shows so many leaves
// out, in words; "" when it shows them all.
func (c *CheckResult) RowsBeyond(shown int) string {
	left := len(c.Rows) - shown
	switch {
	case left <= 0:
		return ""
	case len(c.Rows) >= MaxCheckRows:
		return fmt.Sprintf("at least %d more", left)
	}

	return fmt.Sprintf("%d more", left)
}

// Extent is what a check judged of what there was to judge.
type Extent struct {
	// Judged of Total rows could be judged, or cases, in checks that count cases.
	Judged int `json:"judged"`
	Total  int `json:"total"`
	// Unjudged counts the others by reason.
	Unjudged map[string]int `json:"unjudged,omitempty"`
}

// Artifact is a file that a stage wrote outside the state folder.
type Artifact struct {
	Path   string `json:"path"`
	Digest string `json:"digest"` // "sha256:<hex>" of the bytes
	Rows   int    `json:"rows,omitempty"`
}

// CheckContext is given to Check.
type CheckContext struct {
	Address string
	Range   hcl.Range // of the block's header
	// Tables are the built-in perf tables and those that the plan declares.
	Tables *catalog.Catalog
}

// RunContext is given to Run.
type RunContext struct {
	Address string
	// Key is that of the record that the stage will have; "" where it has none.
	Key   string
	Range hcl.Range
	// Inputs are the datasets by Input.Name.
	Inputs map[string]*Dataset
	// Plan is what Planner.Plan returned for this instance (nil without one).
	Plan *Plan
	// Store is the state folder; stages use it for the case journal only, the
	// engine stores outcomes.
	Store *checkpoint.Store
	Log   hclog.Logger
	// Events receives progress; safe for concurrent use.
	Events Events
	// RunDir is the folder of this run (logs); OutDir is where exports go and
	// no stage may write outside of it; PlanDir holds the plan's files.
	RunDir, OutDir, PlanDir string
	Options                 Options
	// Replace is set where Options.Again is. It makes durable that what the
	// stage's record says counts no more. Stages that own devices call it before
	// they change anything, once they know that they can run; for the others the
	// engine does.
	Replace func() error
	// Upstream describes the stages before this one, for reports. Stages beside it
	// are left out: whether they have finished is a matter of chance.
	Upstream func() []Finished
	// Claim says which other stage of the plan writes a file, by its path, or "";
	// then the file is the caller's for this run. Nil where there is no run.
	Claim func(path string) string
	// Standing returns the stages of the plan whose data this run takes as it is,
	// by address: those that the state folder answers, and those that have ended
	// well. Nil where there is no run.
	Standing func() map[string]Stage
	// OnNode is true in a task of an executor, on the node that measures.
	OnNode bool
	// Stop is closed at the first Ctrl-C: finish and keep what is in flight.
	// The context itself is cancelled at the second.
	Stop <-chan struct{}
}

// Finished is a stage of this run that ended before the caller started.
type Finished struct {
	Address string
	Kind    string // its name, for people
	Class   Class
	Reused  bool
	Outcome *Outcome
	Seconds float64
	// After lists the stages that it waited for directly.
	After []string
	// Waterfall explains a grid's count; nil for other kinds.
	Waterfall *Waterfall
}

// Options are the choices of one run that change which cases are collected.
type Options struct {
	Limit int    `json:"limit,omitempty"` // at most so many cases per grid; 0 means all
	Smoke bool   `json:"smoke,omitempty"` // a handful of cases per grid
	Seed  int64  `json:"seed"`            // of every random sample
	Retry string `json:"retry,omitempty"` // "", "failed" or "tripped": which ledger rows to try again
	// Again asks this stage to measure what is measured already: --replace names
	// it, or named it in a run that did not end. Epoch is the token of that
	// replacement, "" in plans of one that has not begun.
	Epoch string `json:"-"`
	Again bool   `json:"-"`
}

// Partial names the reason why a run with these options cannot be complete,
// or "".
func (o Options) Partial() string {
	switch {
	case o.Smoke:
		return "smoke"
	case o.Limit > 0:
		return "limit"
	}

	return ""
}

// Levels of messages that are no lines of a log.
const (
	// MessageStatus says what a case in progress is at; the next one replaces it.
	MessageStatus = "status"
	// MessageShow is shown as it is, such as the table of a load point.
	MessageShow = "show"
)

// Events receives what a running stage wants to be seen.
type Events interface {
	// Progress is called often; the receiver thins it out.
	Progress(address string, p Progress)
	// Message is one line for the log and the run's event file.
	Message(address, level, text string)
	// Emit writes one typed event with its fields to the run's event file.
	Emit(address, typ string, fields map[string]any)
}

// Progress of a stage that works through cases.
type Progress struct {
	Done, Failed, Skipped, Total int
	// Before is how many of them had ended before the run began.
	Before int
}
