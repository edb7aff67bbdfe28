package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
)

type preflightCmd struct {
	planFlags `embed:""`
	outFlag   `embed:""`
	JSON      bool `name:"json" help:"Print as JSON."`
}

// Run runs the plan's preflight checks on this machine.
func (c *preflightCmd) Run(a *app) error {
	all := a.stages()
	defer all.Close()
	cfg, err := a.load(c.planFlags, all)
	if err != nil {
		return err
	}

	store, err := a.open(true)
	if err != nil {
		return err
	}

	defer store.Close()
	outDir, err := absDir(c.OutDir)
	if err != nil {
		return err
	}

	var results []*run.StageResult
	type guard struct {
		in *config.Instance
		st stage.Stage
	}

	var guards []guard
	for _, in := range cfg.Instances {
		// Checks of a runtime depend on the stages that measure on it.
		if in.Kind.Class != stage.Guard && !in.Kind.Class.OwnsDevices() {
			continue
		}

		st, deferred, diags := cfg.Decode(in)
		if err := a.report(cfg, diags); err != nil {
			return err
		}

		if in.Kind.Class != stage.Guard {
			continue
		}
		if deferred {
			return fmt.Errorf("%s uses what another stage puts out and cannot be run alone", in.Address)
		}

		guards = append(guards, guard{in, st})
	}

	for _, g := range guards {
		r, err := runGuard(g.in, g.st, store, outDir, cfg.Dir, true)
		if err != nil {
			return err
		}
		results = append(results, r)
	}

	if len(results) == 0 {
		return fmt.Errorf("%s has no preflight stage", c.Path)
	}

	if c.JSON {
		err = a.json(gateGroups(&run.Applied{Stages: results}))
	} else {
		a.preflights(results)
	}

	a.code = (&run.Applied{Stages: results}).ExitCode()
	return err
}

// runGuard runs one preflight outside of a run. here is true if it checks this machine regardless of the
// stage's executor.
func runGuard(in *config.Instance, st stage.Stage, store *checkpoint.Store, outDir, planDir string,
	here bool) (*run.StageResult, error) {
	out, err := st.Run(context.Background(), &stage.RunContext{
		Address: in.Address, Range: in.Range, Store: store, Log: hclog.NewNullLogger(), Events: quietEvents{},
		OutDir: outDir, PlanDir: planDir, OnNode: here,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Address, err)
	}
	return &run.StageResult{Address: in.Address, Kind: in.Kind.Name, Is: in.Kind, Status: out.Status,
		Message: out.Message, Outcome: out}, nil
}

// guardsFirst runs the preflights without dependencies before anything is created. hopeless is true if
// every stage that would run depends on a failed one.
func guardsFirst(p *plan.Plan, outDir string) (results []*run.StageResult, hopeless bool, err error) {
	blocked := map[string]bool{}
	for _, s := range p.Stages {
		if s.Instance.Kind.Class != stage.Guard || s.Action != stage.ActionRun || s.Config == nil || len(p.Graph.Deps(s.Address())) > 0 {
			continue
		}

		r, err := runGuard(s.Instance, s.Config, p.Store, outDir, p.Config.Dir, false)
		if err != nil {
			return nil, false, err
		}

		results = append(results, r)
		if r.Status == stage.StatusPreflight {
			for addr := range p.Graph.Behind(s.Address()) {
				blocked[addr] = true
			}
		}
	}

	hopeless = len(blocked) > 0
	idle := p.Idle()
	for _, s := range p.Stages {
		if !idle[s.Address()] && !blocked[s.Address()] && s.Instance.Kind.Class != stage.Guard {
			hopeless = false
		}
	}

	return results, hopeless, nil
}

func (a *app) preflights(results []*run.StageResult) {
	for _, r := range results {
		fmt.Fprintf(a.stdout, "%s: %s\n", r.Address, statusWord(r.Status))
		for _, c := range r.Outcome.Checks {
			a.hanging(10, "    "+string(c.Result), c.Name+": "+c.Message)
			if c.Fix != "" && (c.Result == "fail" || c.Result == "warn") {
				a.hanging(17, "          to do:", c.Fix)
			}
		}
	}
}

// quietEvents discards the events of a stage.
type quietEvents struct{}

func (quietEvents) Progress(string, stage.Progress)     {}
func (quietEvents) Message(string, string, string)      {}
func (quietEvents) Emit(string, string, map[string]any) {}
