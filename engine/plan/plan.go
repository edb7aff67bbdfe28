// Package plan decides what applying a plan would do: which stages are reused, which are stale and why, and how many
// cases must be measured. It needs no device.
package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/stage"
)

// Options are the options of a plan.
type Options struct {
	Stage    stage.Options `json:"stage"`
	Targets  []string      `json:"targets,omitempty"` // globs over addresses; empty means all
	Excludes []string      `json:"excludes,omitempty"`
	Replace  []string      `json:"replace,omitempty"` // run these although their records are current
	// Price is the cost of an hour of a GPU in any currency. Zero means unknown. A saved plan does not contain it.
	Price float64 `json:"-"`
	// GPUs is the number of GPUs that the wall time is estimated for. Zero means those of a node.
	GPUs int `json:"-"`
	// OutDir is the absolute path of the output folder, or "" if nothing is going to be written. A saved plan does not
	// contain it.
	OutDir string `json:"-"`
}

// Plan contains the decisions about the stages of a config.
type Plan struct {
	Config  *config.Config
	Graph   *Graph
	Stages  []*Stage // selected ones, in run order
	Options Options
	Store   *checkpoint.Store

	byAddr map[string]*Stage
	// forecasts describe the tables of the stages, by address.
	forecasts map[string]*stage.Forecast
	demanded  map[string][]string // columns that later stages require in every row, by address
	written   func() map[string]*checkpoint.StageRecord
}

// Stage is one instance with the decision about it. During a run, engine/run updates the decision when inputs become
// known.
type Stage struct {
	Instance *config.Instance
	Config   stage.Stage // nil while Deferred
	Deferred bool
	// Late is set if the stage was deferred once, because its config depends on outputs of other stages.
	Late   bool
	Action stage.Action
	Reason string
	// Key and Inputs identify the stage's data. They are empty while an input is unknown.
	Key    string
	Inputs json.RawMessage
	// Output identifies the result of the stage. It is "" until it is known.
	Output string
	Plan   *stage.Plan
	// Warnings are shown to the user before the plan is applied.
	Warnings []string
	Record   *checkpoint.StageRecord // in the state folder; nil if there is none
}

// Class returns the class of the stage's kind.
func (s *Stage) Class() stage.Class { return s.Instance.Kind.Class }

// Address returns the address of the stage.
func (s *Stage) Address() string { return s.Instance.Address }

// stays reports whether a run leaves the record of the stage as it is.
func (s *Stage) stays() bool {
	return s.Action == stage.ActionReuse || s.Action == stage.ActionReady || s.Action == stage.ActionNeeds
}

// errorf returns an error about the block of the stage.
func (s *Stage) errorf(summary, format string, args ...any) hcl.Diagnostics {
	return config.WithAddress(stage.ErrorAt(s.Instance.Range, summary, format, args...), s.Address())
}

// Stage returns the planned stage at address, or nil.
func (p *Plan) Stage(address string) *Stage { return p.byAddr[address] }

// Build plans cfg with the state in store. If the diagnostics have errors, the plan cannot be applied and is
// incomplete.
func Build(ctx context.Context, cfg *config.Config, store *checkpoint.Store, opts Options) (*Plan, hcl.Diagnostics) {
	p := &Plan{Config: cfg, Options: opts, Store: store, byAddr: map[string]*Stage{}}
	cfg.ForgetResults()
	deps := map[string][]string{}
	for _, in := range cfg.Instances {
		deps[in.Address] = in.Deps
	}
	var cycles [][]string
	if p.Graph, cycles = newGraph(cfg.Addresses(), deps); cycles != nil {
		return p, cycleDiags(cfg, cycles)
	}
	selected, diags := p.choose()
	if diags.HasErrors() {
		return p, diags
	}
	// A stage with errors is left out with all that depend on it, so that the others can be checked.
	invalid := map[string]bool{}
	for _, addr := range p.Graph.order {
		if !selected[addr] {
			continue
		}
		s := &Stage{Instance: cfg.Instance(addr)}
		more := guarded(s, func() (more hcl.Diagnostics) {
			s.Config, s.Deferred, more = cfg.Decode(s.Instance)
			s.Late = s.Deferred
			return more
		})
		diags = append(diags, more...)
		if more.HasErrors() || slices.ContainsFunc(p.Graph.Deps(addr), func(d string) bool { return invalid[d] }) {
			invalid[addr] = true
			continue
		}
		p.Stages = append(p.Stages, s)
		p.byAddr[addr] = s
	}

	if cycles := p.orderFollowers(deps); cycles != nil {
		return p, cycleDiags(cfg, cycles)
	}
	more := p.checkInputs()
	if diags = append(diags, more...); more.HasErrors() {
		return p, diags
	}
	p.demanded = p.demands()
	p.written = sync.OnceValue(p.writtenFiles)
	diags = append(diags, p.decideAll(ctx)...)
	if !diags.HasErrors() {
		diags = append(diags, p.foresee()...)
	}
	p.decideGuards()
	return p, append(diags, p.takesOver()...)
}

func cycleDiags(cfg *config.Config, cycles [][]string) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, c := range cycles {
		var way strings.Builder
		for i, addr := range c {
			next := c[(i+1)%len(c)]
			if i > 0 {
				way.WriteString(", which")
			} else {
				way.WriteString(addr)
			}
			r := cfg.Instance(next).Range
			fmt.Fprintf(&way, " waits for %s (%s:%d)", next, r.Filename, r.Start.Line)
		}

		stage.AddError(&diags, cfg.Instance(c[0]).Range, "Cycle between stages",
			"%s. Remove one of the references or depends_on.", way.String())
	}

	return diags
}

// checkInputs returns an error for each input that has no table or is not selected, and for each file that two stages
// write.
func (p *Plan) checkInputs() hcl.Diagnostics {
	var diags hcl.Diagnostics
	by := map[string]*Stage{}
	for _, s := range p.Stages {
		if s.Config != nil {
			diags = append(diags, p.checkInput(s)...)
		}
		diags = append(diags, p.writtenTwice(s, by)...)
	}
	return diags
}

// CheckFilesOf does the check of checkInputs for a stage whose files were unknown when the plan was made.
func (p *Plan) CheckFilesOf(s *Stage) hcl.Diagnostics {
	by := map[string]*Stage{}
	for _, other := range p.Stages {
		if other != s {
			p.writtenTwice(other, by)
		}
	}

	return p.writtenTwice(s, by)
}

// writtenTwice adds the files of a stage to by, and returns an error if another stage writes one of them.
func (p *Plan) writtenTwice(s *Stage, by map[string]*Stage) hcl.Diagnostics {
	w, ok := s.Config.(stage.FileWriter)
	if !ok {
		return nil
	}

	for _, f := range w.Files(p.forecast, false) {
		f = filepath.Clean(f)
		if other := by[f]; other != nil { // further files of the two are the same mistake
			return s.errorf("File written twice", "%s writes %s, and so does %s (%s:%d): only one of them would be left. "+
				"Give each a file of its own; with for_each, put each.key into the name.", s.Address(), f, other.Address(),
				other.Instance.Range.Filename, other.Instance.Range.Start.Line)
		}
		by[f] = s
	}

	return nil
}

func (p *Plan) checkInput(s *Stage) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, in := range s.Config.Inputs() {
		up := p.byAddr[in.Ref.Address]
		if up == nil || !up.Class().HasTable() {
			diags = append(diags, s.Instance.Locate(s.errorf("Unsuitable input",
				"%s of %s is %s, which produces no table. Name a stage that does, such as a collect, dedupe or gate.",
				in.Name, s.Address(), in.Ref.Address))...)
		}
	}

	return diags
}

// decideAll decides about all stages, concurrently as far as the graph allows.
func (p *Plan) decideAll(ctx context.Context) hcl.Diagnostics {
	done := map[string]chan struct{}{}
	for _, s := range p.Stages {
		done[s.Address()] = make(chan struct{})
	}
	var mu sync.Mutex
	byStage := map[string]hcl.Diagnostics{}
	// One goroutine a stage, few of them past the semaphore: a stage waits for
	// those it depends on before it takes a place.
	sem := make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))
	var all sync.WaitGroup
	for _, s := range p.Stages {
		all.Go(func() {
			defer close(done[s.Address()])
			for _, d := range p.Graph.Deps(s.Address()) {
				if c, ok := done[d]; ok {
					<-c
				}
			}
			sem <- struct{}{}
			defer func() { <-sem }()
			diags := guarded(s, func() hcl.Diagnostics { return p.Decide(ctx, s) })
			if !diags.HasErrors() {
				p.publish(s)
			}

			mu.Lock()
			byStage[s.Address()] = diags
			mu.Unlock()
		})
	}

	all.Wait()
	var diags hcl.Diagnostics
	for _, s := range p.Stages {
		diags = append(diags, byStage[s.Address()]...)
	}
	return diags
}

// Idle returns the stages that a run does not execute: those that are current, those whose runtime is missing on this
// machine, and the stages that depend on the latter.
func (p *Plan) Idle() map[string]bool {
	out := map[string]bool{}
	for _, s := range p.Stages {
		switch s.Action {
		case stage.ActionReuse, stage.ActionReady:
			out[s.Address()] = true
		case stage.ActionNeeds:
			for addr := range p.Graph.Behind(s.Address()) {
				if b := p.byAddr[addr]; b != nil && (b == s || b.Class() != stage.Report) {
					out[addr] = true
				}
			}
		}
	}

	return out
}

// guarded converts a panic in the code of a stage into a diagnostic at the stage's block.
func guarded(s *Stage, f func() hcl.Diagnostics) (diags hcl.Diagnostics) {
	defer func() {
		if v := recover(); v != nil {
			diags = s.errorf(
				"Internal error",
				"%v. This is a mistake in aicplan, not in your plan. Please report it with the lines below.\n\n%s",
				v,
				debug.Stack(),
			)
		}
	}()

	return f()
}

// decideGuards decides that a guard runs if a stage that depends on it runs.
func (p *Plan) decideGuards() {
	idle := p.Idle()
	for i := len(p.Stages) - 1; i >= 0; i-- {
		s := p.Stages[i]
		if s.Class() != stage.Guard {
			continue
		}
		s.Action, s.Reason = stage.ActionReuse, "nothing behind it is going to run"
		for addr := range p.Graph.Behind(s.Address()) {
			b := p.byAddr[addr]
			if b == nil || b == s || b.Class() == stage.Guard || idle[addr] {
				continue
			}
			s.Action, s.Reason = stage.ActionRun, ""
			break
		}
	}
}
