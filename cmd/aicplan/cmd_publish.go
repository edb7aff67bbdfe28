package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/stages/publish"
)

type publishCmd struct {
	planFlags `embed:""`
	Stage     []string `help:"Only these publish stages (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	outFlag   `embed:""`
	DryRun    bool `help:"Print what would be done, and do nothing."`
	JSON      bool `name:"json" help:"Print what was done as JSON."`
}

// Help is printed below the flags.
func (c *publishCmd) Help() string {
	return `Commits the exports that have ended, as the plan's publish stages describe, during a run or after it. It
measures nothing and takes no lock. It pushes only if the plan has push = true, and opens or updates a draft
pull request only if the plan has a draft block.

Exit codes: 0 done, or nothing to do yet; 1 an error, or git or gh failed; 130 interrupted.`
}

// warnings prints the warnings of a stage and discards its other events.
type warnings struct {
	quietEvents
	to io.Writer
}

// Message implements stage.Events.
func (w warnings) Message(address, level, text string) {
	if level == "warn" || level == "error" {
		fmt.Fprintf(w.to, "Warning: %s: %s\n", address, text)
	}
}

// published is the result of one stage.
type published struct {
	Stage       string `json:"stage"`
	Message     string `json:"message"`
	Commit      string `json:"commit,omitempty"`
	Branch      string `json:"branch,omitempty"`
	Pushed      bool   `json:"pushed"`
	PullRequest string `json:"pull_request,omitempty"`
}

// Run publishes the exports that have ended.
func (c *publishCmd) Run(a *app) error {
	p, err := a.plan(context.Background(), c.planFlags, plan.Options{OutDir: c.OutDir})
	if err != nil {
		return err
	}

	var all []string
	for _, s := range p.Stages {
		if _, ok := s.Config.(*publish.Config); ok {
			all = append(all, s.Address())
		}
	}
	for _, g := range c.Stage {
		if !slices.ContainsFunc(all, func(address string) bool { return plan.MatchAny([]string{g}, address) }) {
			return fmt.Errorf("%s has no publish stage %s.%s", c.Path, g, stage.DidYouMean(g, all))
		}
	}

	a.endPlanning()
	ctx, end := untilSignal() // git and gh are interrupted by this process
	defer end()
	results := []published{}
	for _, s := range p.Stages {
		cfg, ok := s.Config.(*publish.Config)
		if !ok || len(c.Stage) > 0 && !plan.MatchAny(c.Stage, s.Address()) {
			continue
		}

		r, err := c.one(ctx, a, p, s, cfg)
		if err != nil && ctx.Err() != nil {
			fmt.Fprintf(a.stderr, "Error: interrupted: %s: %v\n", s.Address(), err)
			return exitError(run.ExitInterrupted)
		}

		if err != nil {
			return fmt.Errorf("%s: %w", s.Address(), err)
		}
		if r != nil {
			results = append(results, *r)
		}
	}

	switch {
	case len(all) == 0:
		return fmt.Errorf("%s has no publish stage; aicplan help publish shows one", c.Path)
	case c.JSON && !c.DryRun:
		return a.json(results)
	}

	return nil
}

func (c *publishCmd) one(ctx context.Context, a *app, p *plan.Plan, s *plan.Stage,
	cfg *publish.Config) (*published, error) {
	events := warnings{to: a.stderr}
	ended, err := endedOf(p, cfg.Exports(), func(text string) { events.Message(s.Address(), "warn", text) })
	if err != nil {
		return nil, err
	}

	own, err := fileutil.NewTempFolder("publish")
	if err != nil {
		return nil, err
	}

	defer own.Remove()
	rc := &stage.RunContext{
		Address: s.Address(), Range: s.Instance.Range, Store: p.Store,
		Events: events,
		RunDir: own.Path, OutDir: c.OutDir, PlanDir: p.Config.Dir, Upstream: func() []stage.Finished { return ended },
	}

	if c.DryRun {
		fmt.Fprintf(a.stdout, "%s would do this:\n", s.Address())
		if err := cfg.Preview(ctx, a.stdout, rc); !errors.Is(err, publish.ErrNothing) {
			return nil, err
		}
		fmt.Fprintln(a.stdout, "nothing: no export has ended yet")
		return nil, nil
	}

	o, err := cfg.Ended(ctx, rc)
	if errors.Is(err, publish.ErrNothing) {
		if !c.JSON {
			fmt.Fprintf(a.stdout, "%s: no export has ended yet\n", s.Address())
		}
		return &published{Stage: s.Address(), Message: "no export has ended yet"}, nil
	}

	if err != nil {
		return nil, err
	}
	if !c.JSON {
		fmt.Fprintf(a.stdout, "%s: %s\n", s.Address(), o.Message)
	}

	r := &published{Stage: s.Address(), Message: o.Message, Commit: o.Values["commit"].AsString(),
		Branch: o.Values["branch"].AsString(), Pushed: o.Values["pushed"].True()}

	if v := o.Values["pull_request"]; !v.IsNull() {
		r.PullRequest = v.AsString()
	}

	return r, nil
}

// endedOf returns the stages with a usable record. It leaves out files that the gates would have to judge again.
func endedOf(p *plan.Plan, addresses []string, warn func(string)) ([]stage.Finished, error) {
	var out []stage.Finished
	for _, addr := range addresses {
		rec, err := p.Store.ReadStage(addr)
		if errors.Is(err, checkpoint.ErrMissing) || err == nil && rec.Replacing != "" {
			continue
		}

		if err != nil {
			return nil, err
		}

		if by := unjudged(p, addr); by != "" && p.Stage(addr).Class() == stage.Sink {
			warn(fmt.Sprintf("%s is left out: %s has not passed as the plan is now; apply it again", addr, by))
			continue
		}

		o, err := plan.ReadOutcome(rec)
		if err != nil {
			return nil, fmt.Errorf("the record of %s: %w", addr, err)
		}

		out = append(out, stage.Finished{Address: addr, Kind: rec.Kind, Outcome: o})
	}

	return out, nil
}

// unjudged returns a stage that judges the data of an export and has not passed as the plan is now, or "". It does not
// know stages whose input is still to be measured.
func unjudged(p *plan.Plan, address string) string {
	before := p.Graph.Closure(address)
	for _, s := range p.Stages {
		judges := s.Class() == stage.Check || s.Class() == stage.Transform || s.Class() == stage.Verify
		if judges && before[s.Address()] && (s.Action == stage.ActionStale || s.Action == stage.ActionCollect) {
			return s.Address()
		}
	}
	return ""
}
