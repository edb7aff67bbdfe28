// Package stage is the contract between the engine and the stage kinds: what a kind registers, what a stage gets
// when it is planned and run, and what it passes to later stages. The engine imports this package and no concrete
// stage; every package under stages/ implements it.
package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/checkpoint"
	"aicplan/sink/catalog"
)

// Kind describes one stage kind. stages.All lists all kinds.
type Kind struct {
	// Name is the block type in HCL, for example "gate".
	Name string
	// Version is raised if the same config gets another meaning. It is part of every key of the kind.
	Version int
	// Code identifies the code that computes the stage's data, for kinds whose data is cheap to compute again; see
	// CodeOf. It is part of every key of the kind. Nil for kinds that measure.
	Code func() string
	// Beside lists the attributes and blocks that do not shape the stage's data, by their paths in Values, each
	// with the reason. Everything else is part of every key.
	Beside map[string]string
	// Summary is one line for describe, docs and error messages.
	Summary string
	// Class is the role of the stages in a plan.
	Class Class
	// BareNames is set if expressions in the body may use names that the stage defines (axes of a grid, aggregates
	// of a gate's assert). The stage then implements BodyDecoder and reports unknown names itself.
	BareNames bool
	// Demands are columns that a stage of the kind requires in every row.
	Demands []string
	// Outputs are the attributes that other expressions may read after the stage has run. Every stage also has
	// rows, digest and address.
	Outputs map[string]cty.Type
	// New returns a config with its defaults: a pointer to a struct with gohcl tags.
	New func() Stage
}

// Stage is the decoded config of one stage instance. It is decoded again for every instance and never shared
// between goroutines.
type Stage interface {
	// Check returns the errors that decoding does not detect. It uses only its own config and must not access
	// devices, network or files.
	Check(*CheckContext) hcl.Diagnostics
	// Inputs returns the datasets that the stage reads, in a fixed order.
	Inputs() []Input
	// Run runs the stage. An error means that the whole stage failed; failed cases are rows of the ledger, and a
	// failed gate is an Outcome. If Run returns an error, only Outcome.Counts is used, for the rows that were
	// stored before.
	Run(context.Context, *RunContext) (*Outcome, error)
}

// BodyDecoder is implemented by stages whose body gohcl alone cannot decode.
type BodyDecoder interface {
	DecodeBody(body hcl.Body, eval Evaluator) hcl.Diagnostics
	// Words returns the attributes and blocks that the body may have.
	Words() Vocabulary
}

// Planner is implemented by stages that know more than "run" or "reuse" when the plan is made: grids and imports
// produce their data, and a collect counts the measured cases.
type Planner interface {
	Plan(context.Context, *PlanContext) (*Plan, hcl.Diagnostics)
}

// Keyer is implemented by stages whose data depends on more than config and inputs, for example on the environment
// of the measurement. KeyExtra is called before Plan, must be quick, and must not start processes that take
// seconds.
type Keyer interface {
	KeyExtra(context.Context, *PlanContext) (any, hcl.Diagnostics)
}

// Judge is implemented by stages whose block also defines how an outcome is judged, such as limits on failures. It
// is called with a current record and judges it again. If the result differs from the record, why is the reason;
// the stage then runs and has nothing to measure.
type Judge interface {
	Judge(*checkpoint.StageRecord) (Status, string)
}

// DeviceUser is implemented by stages that own devices and may use those of other machines, or that keep workers
// running.
type DeviceUser interface {
	// Elsewhere reports whether the stage works on other machines. It then does not wait for a device of this one.
	Elsewhere() bool
	// Warm names what the stage keeps loaded when it ends, such as a framework with its model, or is "". A ready
	// stage with the same name as the last one starts first.
	Warm() string
}

// FileWriter is implemented by stages whose config determines which files they write.
type FileWriter interface {
	// Files returns the files that the stage replaces, relative to the output folder, as far as their names are
	// known. sample is set if its rows are a sample of --limit or --smoke.
	Files(in Forecasts, sample bool) []string
	// Target returns a name for the table that the stage writes, or "" if it is unknown or there is none.
	Target(Forecasts) string
}

// Evaluator evaluates expressions of a plan.
type Evaluator interface {
	// Context returns an evaluation context with the values of the references in exprs. Roots in bound belong to
	// the caller and are left out; any other unknown root is a diagnostic with suggestions.
	Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics)
	// Text returns the source text of a range.
	Text(hcl.Range) string
}

// Input is one dataset that a stage reads.
type Input struct {
	// Name is the config attribute, for example "input" or "reference".
	Name string
	Ref  *Ref
	// Reference is set if the stage only compares with the dataset.
	Reference bool
}

// Dataset is the data that a stage passes on. Its records are shared and must not be modified.
type Dataset struct {
	// Table contains measurements or imported rows. It is nil if there are none yet.
	Table arrow.Record
	// Ledger has one row for each planned case without a measurement; see LedgerSchema. It is nil if nothing was
	// planned.
	Ledger arrow.Record
	// Planned contains the cases of the grid that the rows belong to. It is nil for data from files.
	Planned arrow.Record
	Info    Info
}

// Info describes a dataset as a whole. It is stored with its tables.
type Info struct {
	Op     string   `json:"op,omitempty"`         // the grid's op
	Perf   string   `json:"perf_table,omitempty"` // catalog table, e.g. gemm_perf; empty when none
	Params []string `json:"params,omitempty"`     // columns that identify a case, in grid order
	// Declared is the table of the rows if the plan declares it. Perf is then its name.
	Declared  *catalog.Declaration `json:"declared_table,omitempty"`
	Framework string               `json:"framework,omitempty"`
	Version   string               `json:"version,omitempty"`
	Device    string               `json:"device,omitempty"`
	System    string               `json:"system,omitempty"` // name of the system spec, if the plan names one
	Runtime   string               `json:"runtime,omitempty"`
	Image     string               `json:"image,omitempty"`
	// ImageDigest is the digest in the plan. It is never determined.
	ImageDigest string `json:"image_digest,omitempty"`
	// Partial is the reason why the rows are not those of the whole grid (limit, smoke, interrupted, a tripped
	// ramp), or "".
	Partial string `json:"partial,omitempty"`
	// Env is the environment that the worker reported: driver, cuda, library versions, hostname.
	Env map[string]string `json:"env,omitempty"`
}

// Tables returns the built-in perf tables and the declared one of the dataset.
func (i Info) Tables() *catalog.Catalog {
	if i.Declared == nil {
		return nil
	}
	c, err := catalog.New(*i.Declared)
	if err != nil {
		return nil // cannot happen: declarations are checked when the plan is read
	}
	return c
}

// Status is the result of a stage.
type Status string

// The results of stages, from best to worst.
const (
	StatusOK          Status = "ok"
	StatusPartial     Status = "partial"     // data is missing: exit 3
	StatusNeeds       Status = "needs"       // its runtime is missing on this machine: exit 3
	StatusGateFailed  Status = "gate_failed" // exit 4
	StatusPreflight   Status = "preflight_failed"
	StatusInterrupted Status = "interrupted"
	StatusFailed      Status = "failed"
	StatusSkipped     Status = "skipped"
)

// Outcome is the result of a run of a stage.
type Outcome struct {
	Status  Status
	Message string // one line: why it is not ok, or what the stage did
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
	// NoReuse is set if the outcome is not stored, so that the next apply runs the stage again.
	NoReuse bool
}

// Counts counts cases (for collect) or rows (for others).
type Counts struct {
	// Cases is the number of selected cases if a case has several rows; the other counts are of rows then. It is 0
	// if a case has one row.
	Cases    int `json:"cases,omitempty"`
	Planned  int `json:"planned,omitempty"`
	Measured int `json:"measured,omitempty"` // in this run
	Reused   int `json:"reused,omitempty"`   // from the journal
	Failed   int `json:"failed,omitempty"`
	Skipped  int `json:"skipped,omitempty"`
	Rows     int `json:"rows,omitempty"` // of the table
}

// CheckResult is one check of a gate or a preflight.
type CheckResult struct {
	Name     string `json:"name"`
	Severity string `json:"severity"` // "fail" or "warn"
	// Result is "pass", "fail", "warn" (failed, but only a warning) or "skip" (could not be judged; Message has the
	// reason).
	Result  string `json:"result"`
	Message string `json:"message"`
	// Extent is what the check could judge. It is nil for checks that judge no rows, such as those of a preflight.
	*Extent
	Value string   `json:"value,omitempty"` // the value that was found
	Limit string   `json:"limit,omitempty"` // the limit
	Rows  []string `json:"rows,omitempty"`  // offending rows, worst first, at most MaxCheckRows
	Fix   string   `json:"fix,omitempty"`   // the next step for the user
	Pos   string   `json:"pos,omitempty"`   // file:line of the check block
	// Detail contains further results for reports: an object whose form depends on the check.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// MaxCheckRows is the maximum number of offending rows in a result.
const MaxCheckRows = 20

// RowsBeyond returns in words how many offending rows a view leaves out that shows a given number, or "".
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

// Extent is the part of the data that a check could judge.
type Extent struct {
	// Judged is the number of rows, of Total, that could be judged, or of cases in checks that count cases.
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
	Entry  string `json:"entry,omitempty"`  // digest of the table's entry in collection_meta.yaml, if there is one
	Beside string `json:"beside,omitempty"` // digest of what the stage wrote into files that it shares with others
}

// CheckContext is given to Check.
type CheckContext struct {
	Name  string    // label of the block
	Range hcl.Range // range of the block's header
	// Tables are the built-in perf tables and those that the plan declares.
	Tables *catalog.Catalog
}

// RunContext is given to Run.
type RunContext struct {
	Address string
	// Key is the key of the stage's record, or "" if it has none.
	Key   string
	Range hcl.Range
	// Inputs are the datasets by Input.Name.
	Inputs map[string]*Dataset
	// Plan is the result of Planner.Plan, or nil for stages without one.
	Plan *Plan
	// Store is the state folder. Stages use it only for the case journal; the engine stores outcomes.
	Store *checkpoint.Store
	// Events receives progress. It is safe for concurrent use.
	Events Events
	// RunDir is the folder of this run with its logs. OutDir is the folder of exports, outside of which no stage
	// may write. PlanDir is the folder of the plan's files.
	RunDir, OutDir, PlanDir string
	Options                 Options
	// Replace is set if Options.Again is set. It durably invalidates the stage's record. Stages that own devices
	// call it when they know that they can run, before they change anything. The engine calls it for the others.
	Replace func() error
	// Upstream returns the stages that this one depends on, for reports. Other stages are left out, because it is
	// a matter of chance whether they have ended.
	Upstream func() []Finished
	// Claim returns the other stage of the plan that writes a file, by its path. If it returns "", the file
	// belongs to the caller for this run. Nil outside of a run.
	Claim func(path string) string
	// Standing returns the stages whose data this run reuses, by address: those with current records, and those
	// that have ended well. Nil outside of a run.
	Standing func() map[string]Stage
	// Unlocked calls wait while other runs may use the state folder. wait must not write what other runs write. If
	// Unlocked returns an error, the stage must not write either. Nil outside of a run.
	Unlocked func(wait func() error) error
	// OnNode is set in a task of an executor, on the node that measures.
	OnNode bool
	// Stop is closed at the first Ctrl-C. The stage then ends the cases in progress and stores them. The context
	// is cancelled at the second Ctrl-C.
	Stop <-chan struct{}
}

// Place returns the position of a block as file:line, or "" if it has none. The file is relative to the folder of the
// plan if it is inside that folder.
func (rc *RunContext) Place(block hcl.Range) string {
	name := block.Filename
	if name == "" {
		return ""
	}
	if rel, err := filepath.Rel(rc.PlanDir, name); err == nil && rc.PlanDir != "" && filepath.IsLocal(rel) {
		name = rel
	}
	return fmt.Sprintf("%s:%d", filepath.ToSlash(name), block.Start.Line)
}

// Stopped reports whether Stop is closed.
func (rc *RunContext) Stopped() bool {
	select {
	case <-rc.Stop:
		return true
	default:
		return false
	}
}

// Finished is a stage of this run that ended before the caller started.
type Finished struct {
	Address string
	Kind    string // name of the kind
	Class   Class
	Reused  bool
	Outcome *Outcome
	Seconds float64
	// After lists the stages that it depends on directly.
	After []string
	// Waterfall explains a grid's count; nil for other kinds.
	Waterfall *Waterfall
}

// Options are the choices of one run that change which cases are collected.
type Options struct {
	Limit int    `json:"limit,omitempty"` // maximum number of cases per grid; 0 means all
	Smoke bool   `json:"smoke,omitempty"` // a few cases per grid
	Seed  int64  `json:"seed"`            // of every random sample
	Retry string `json:"retry,omitempty"` // "", "failed" or "tripped": which ledger rows to try again
	// Again is set if the stage measures stored cases again, because --replace names it, or named it in a run that
	// did not end. Epoch is the token of that replacement, or "" if it has not begun.
	Epoch string `json:"-"`
	Again bool   `json:"-"`
}

// Partial returns the reason why a run with these options is not complete, or "".
func (o Options) Partial() string {
	switch {
	case o.Smoke:
		return "smoke"
	case o.Limit > 0:
		return "limit"
	}

	return ""
}

// Levels of messages that are not lines of a log.
const (
	// MessageStatus describes the state of a running case. The next one replaces it.
	MessageStatus = "status"
	// MessageShow is shown unchanged, such as the table of a load point.
	MessageShow = "show"
)

// Events receives the events of a running stage.
type Events interface {
	// Progress is called often. The receiver reduces the rate.
	Progress(address string, p Progress)
	// Message adds a line to the log and to the run's event file.
	Message(address, level, text string)
	// Emit writes a typed event with its fields to the run's event file.
	Emit(address, typ string, fields map[string]any)
}

// Progress is the progress of a stage that measures cases.
type Progress struct {
	Done, Failed, Skipped, Total int
	// Before is the number of cases that had ended before the run began.
	Before int
}
