// Package run applies a plan. Stages run in the order of the graph: independent ones concurrently, those that own
// devices one at a time. The outcome of a stage is stored before other stages use it.
package run

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
)

// Options of a run.
type Options struct {
	Run    *checkpoint.Run
	OutDir string // absolute; exports write only inside
	Log    hclog.Logger
	View   View      // shows the run; may be nil
	Events io.Writer // gets the events as NDJSON; may be nil
	// Stop is closed by the first Ctrl-C.
	Stop <-chan struct{}
	// Detach is set if stages end once their jobs are submitted. They are interrupted then.
	Detach bool
	// Lock is the lock of the state folder, if other runs may use the folder while this one waits for jobs.
	Lock *checkpoint.RunLock
	// Done contains outcomes that are known already, by address: those of guards that ran before the state folder
	// was opened.
	Done map[string]*stage.Outcome
}

// Applied is the result of a run.
type Applied struct {
	RunID   string
	Stages  []*StageResult // in run order
	Outputs []config.Output
	Seconds float64
	Diags   hcl.Diagnostics
	// Detached is set if stages are interrupted because their jobs continue without the run, and not by a signal.
	Detached bool
}

// StageResult is the result of one stage.
type StageResult struct {
	Address string
	Kind    string
	Is      stage.Kind // the kind itself
	Reused  bool
	Guarded bool // the stage is a guard that was not needed
	Status  stage.Status
	Message string
	// Blocker is the stage because of which this one was skipped.
	Blocker string
	// Busy is set if the stage failed because another process uses a device or folder that it needs.
	Busy    bool
	Outcome *stage.Outcome // nil if the stage did not run
	Seconds float64
}

// Finished describes the stage for stages that depend on it.
func (s *StageResult) Finished() stage.Finished {
	out := s.Outcome
	if out == nil {
		out = &stage.Outcome{Status: s.Status, Message: s.Message}
	}
	return stage.Finished{Address: s.Address, Kind: s.Kind, Class: s.Is.Class, Reused: s.Reused, Outcome: out,
		Seconds: s.Seconds}
}

// runner holds the state of one run.
type runner struct {
	plan *plan.Plan
	opts Options
	ev   *events
	kept map[string]stage.Stage // stages that the plan reuses, by address

	holds *holds

	mu      sync.Mutex
	results map[string]*StageResult
	data    map[string]*stage.Dataset
	stored  map[arrow.Record]string // digests of tables that were stored
	waiting map[string]int          // number of dependencies that have not ended
	warned  map[string][]string     // warnings that were sent, by address
	claims  map[string]string       // stages by the path of a file that they write; nil before the first claim
}

// Apply runs a plan and returns the results of its stages, including failed ones. It returns an error if the run
// cannot continue, for example because the state folder cannot be written.
func Apply(ctx context.Context, p *plan.Plan, opts Options) (*Applied, error) {
	started := time.Now()
	ev, err := newEvents(opts)
	if err != nil {
		return nil, err
	}

	r := &runner{
		plan: p, opts: opts, ev: ev,
		holds:   &holds{lock: opts.Lock, runID: opts.Run.ID},
		results: map[string]*StageResult{},
		data:    map[string]*stage.Dataset{},
		stored:  map[arrow.Record]string{},
		waiting: map[string]int{},
		kept:    map[string]stage.Stage{},
		warned:  map[string][]string{},
	}
	for _, s := range p.Stages {
		if s.Action == stage.ActionReuse {
			r.kept[s.Address()] = s.Config
		}
	}

	ev.runStart(p)
	for _, s := range p.Stages {
		r.warn(s) // before hours of measuring, not after them
	}
	r.loop(ctx)
	res := &Applied{RunID: opts.Run.ID, Seconds: time.Since(started).Seconds(), Detached: r.detached()}
	for _, s := range p.Stages {
		if sr := r.results[s.Address()]; sr != nil {
			res.Stages = append(res.Stages, sr)
		}
	}

	res.Outputs, res.Diags = p.Config.Outputs()
	ev.runEnd(res)
	return res, nil
}

// detached reports whether interrupted stages are those whose jobs continue.
func (r *runner) detached() bool {
	return r.opts.Detach && !r.stopping()
}

// loop runs all stages, each when its dependencies have ended.
func (r *runner) loop(ctx context.Context) {
	for _, s := range r.plan.Stages {
		for _, d := range r.plan.Graph.Deps(s.Address()) {
			if r.plan.Stage(d) != nil {
				r.waiting[s.Address()]++
			}
		}
	}

	end := func(addr string) {
		for _, d := range r.plan.Graph.Dependents(addr) {
			r.waiting[d]--
		}
	}

	finished := make(chan string)
	started, free := map[string]bool{}, map[string]func(){}
	running, deviceBusy, cpuRunning := 0, false, 0
	mostRunning := max(2, runtime.GOMAXPROCS(0)) // stages without a device
	warm := ""                                   // runtime whose workers the last stage left running
	r.holds.add()
	for {
		for _, s := range r.warmFirst(warm, started) {
			addr := s.Address()
			if started[addr] || r.waiting[addr] > 0 {
				continue
			}

			warmed, elsewhere := deviceUse(s)
			if answered(s) {
				// End it in the order of the plan, so that its dependents start in that order.
				started[addr] = true
				r.execute(ctx, s)
				end(addr)
				continue
			}

			switch device := s.Class().OwnsDevices(); {
			case elsewhere: // it uses other machines
				free[addr] = func() {}
			case device && deviceBusy, !device && cpuRunning >= mostRunning:
				continue
			case device:
				warm = warmed
				deviceBusy, free[addr] = true, func() { deviceBusy = false }
			default:
				cpuRunning++
				free[addr] = func() { cpuRunning-- }
			}

			started[addr] = true
			running++
			r.holds.add()
			go func() {
				r.execute(ctx, s)
				finished <- addr
			}()
		}

		if running == 0 {
			return
		}

		// The hold of the stage that ends becomes that of the loop.
		if err := r.holds.drop(); err != nil {
			r.opts.Log.Warn("the state folder stays locked", "error", err)
		}
		addr := <-finished
		running--
		free[addr]()
		end(addr)
	}
}

// warmFirst returns the plan's stages in order, except that a ready stage that can use the running workers comes
// first. Starting a framework takes longer than most cases.
func (r *runner) warmFirst(warm string, started map[string]bool) []*plan.Stage {
	if warm == "" {
		return r.plan.Stages
	}

	i := slices.IndexFunc(r.plan.Stages, func(s *plan.Stage) bool {
		needs, elsewhere := deviceUse(s)
		return !started[s.Address()] && r.waiting[s.Address()] == 0 && !answered(s) && !elsewhere && needs == warm
	})
	if i < 0 {
		return r.plan.Stages
	}
	return slices.Concat(r.plan.Stages[i:i+1], r.plan.Stages[:i], r.plan.Stages[i+1:])
}

// deviceUse returns the runtime whose workers a stage leaves running, and whether the stage uses other machines.
func deviceUse(s *plan.Stage) (warm string, elsewhere bool) {
	if u, ok := s.Config.(stage.DeviceUser); ok {
		return u.Warm(), u.Elsewhere()
	}
	return "", false
}

// answered reports whether the plan has the data of a stage.
func answered(s *plan.Stage) bool {
	return s.Action == stage.ActionReady || s.Action == stage.ActionReuse
}

// bad reports whether the stages that depend on a stage must not run.
func bad(s stage.Status) bool {
	return s != stage.StatusOK && s != stage.StatusPartial
}

// execute runs or reuses one stage whose dependencies have ended.
func (r *runner) execute(ctx context.Context, s *plan.Stage) {
	start := time.Now()
	sr := &StageResult{Address: s.Address(), Kind: s.Instance.Kind.Name, Is: s.Instance.Kind}
	defer func() {
		sr.Seconds = time.Since(start).Seconds()
		r.mu.Lock()
		r.results[sr.Address] = sr
		r.mu.Unlock()
		if bad(sr.Status) {
			r.plan.Config.SetResult(sr.Address, plan.ResultsOfBad(s.Instance.Kind, sr.Outcome))
		}
		r.ev.stageEnd(sr)
	}()

	if by, why := r.blocked(s); why != "" {
		sr.Status, sr.Message, sr.Blocker = stage.StatusSkipped, why, by
		return
	}
	if r.stopping() {
		sr.Status, sr.Message = stage.StatusInterrupted, "the run was interrupted before it started"
		return
	}

	diags := r.refresh(ctx, s)
	if diags.HasErrors() {
		sr.Status, sr.Message = stage.StatusFailed, firstError(diags)
		r.ev.diagnostics(diags)
		return
	}

	if s.Class() == stage.Guard && s.Action == stage.ActionReuse {
		sr.Status, sr.Message, sr.Guarded, sr.Reused = stage.StatusOK, s.Reason, true, true
		return
	}
	r.warn(s)

	switch s.Action {
	case stage.ActionNeeds:
		sr.Status, sr.Message = stage.StatusNeeds, s.Reason
	case stage.ActionReuse:
		r.reuse(s, sr)
	default:
		r.runStage(ctx, s, sr)
	}
}

// warn sends the warnings of a stage that have not been sent yet.
func (r *runner) warn(s *plan.Stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range s.Warnings {
		if !slices.Contains(r.warned[s.Address()], w) {
			r.warned[s.Address()] = append(r.warned[s.Address()], w)
			r.ev.Message(s.Address(), "warn", w)
		}
	}
}

// blocked returns the reason why a stage cannot run and the stage that caused it. Both are "" if it can run.
func (r *runner) blocked(s *plan.Stage) (by, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.plan.Graph.Deps(s.Address()) {
		if up := r.results[d]; up != nil && bad(up.Status) && s.Class() != stage.Report {
			by = d
			if up.Blocker != "" {
				by = up.Blocker // the first cause
			}
			return by, d + " " + wording[up.Status]
		}
	}
	return "", ""
}

var wording = map[stage.Status]string{
	stage.StatusNeeds:       "needs another runtime",
	stage.StatusGateFailed:  "did not pass",
	stage.StatusPreflight:   "did not pass",
	stage.StatusInterrupted: "was interrupted",
	stage.StatusFailed:      "failed",
	stage.StatusSkipped:     "was skipped",
}

func (r *runner) stopping() bool {
	select {
	case <-r.opts.Stop:
		return true
	default:
		return false
	}
}

// refresh plans a stage again if its inputs were unknown when the plan was made.
func (r *runner) refresh(ctx context.Context, s *plan.Stage) hcl.Diagnostics {
	if s.Action != stage.ActionUnknown {
		return nil
	}

	var diags hcl.Diagnostics
	if s.Deferred {
		st, deferred, more := r.plan.Config.Decode(s.Instance)
		diags = append(diags, more...)
		if diags.HasErrors() {
			return diags
		}
		if deferred {
			return append(diags, stage.ErrorAt(s.Instance.Range, "Value is still unknown",
				"An attribute uses an output that its stage did not set; %s cannot run without it.", s.Address())...)
		}

		r.mu.Lock()
		s.Config, s.Deferred = st, false
		diags = append(diags, r.plan.CheckFilesOf(s)...)
		r.mu.Unlock()
		if diags.HasErrors() {
			return diags
		}
	}

	return append(diags, r.plan.Decide(ctx, s)...)
}

// publish passes an outcome to the stages that depend on it.
func (r *runner) publish(s *plan.Stage, o *stage.Outcome, output, digest string) {
	r.mu.Lock()
	s.Output = output
	if o.Data != nil {
		r.data[s.Address()] = o.Data
	}
	r.mu.Unlock()
	r.plan.Config.SetResult(s.Address(), plan.Results(s.Instance.Kind, o.Counts.Rows, digest, o.Values))
}

func firstError(diags hcl.Diagnostics) string {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			return fmt.Sprintf("%s: %s", d.Summary, d.Detail)
		}
	}
	return ""
}
