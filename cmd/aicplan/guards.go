package main

import (
	"context"
	"fmt"

	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
)

// runGuard runs one preflight outside of a run. here is true if it checks this machine regardless of the
// stage's executor.
func runGuard(p *plan.Plan, s *plan.Stage, here bool) (*run.StageResult, error) {
	in := s.Instance
	out, err := s.Config.Run(context.Background(), &stage.RunContext{
		Address: in.Address, Range: in.Range, Store: p.Store, Events: quietEvents{},
		OutDir: p.Options.OutDir, PlanDir: p.Config.Dir, OnNode: here,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.Address, err)
	}
	return &run.StageResult{Address: in.Address, Kind: in.Kind.Name, Is: in.Kind, Status: out.Status,
		Message: out.Message, Outcome: out}, nil
}

// guardsFirst runs the preflights without dependencies before anything is created. hopeless is true if
// every stage that would run depends on a failed one.
func guardsFirst(p *plan.Plan) (results []*run.StageResult, hopeless bool, err error) {
	blocked := map[string]bool{}
	for _, s := range p.Stages {
		if s.Instance.Kind.Class != stage.Guard || s.Action != stage.ActionRun || s.Config == nil ||
			len(p.Graph.Deps(s.Address())) > 0 {
			continue
		}

		r, err := runGuard(p, s, false)
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
