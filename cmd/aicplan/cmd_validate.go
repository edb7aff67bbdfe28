package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/sink/base/textutil"
	"aicplan/systems"
)

type validateCmd struct {
	planFlags `embed:""`
	JSON      bool `name:"json" help:"Print the diagnostics as JSON."`
}

// diagsJSON converts diagnostics for JSON output.
func diagsJSON(files map[string]*hcl.File, diags hcl.Diagnostics) []config.DiagJSON {
	out := []config.DiagJSON{}
	for _, d := range config.Merged(diags) {
		out = append(out, config.ToJSON(d, files))
	}
	return out
}

// Run checks the plan without running it.
func (c *validateCmd) Run(a *app) error {
	if ext := filepath.Ext(c.Path); ext == ".yaml" || ext == ".yml" {
		return c.spec(a)
	}

	if err := a.notSaved(c.planFlags); err != nil {
		return err
	}

	cfg, diags := config.Load(a.loadOptions(c.planFlags))
	stageCount := 0
	if !diags.HasErrors() {
		store, err := a.store()
		if err != nil {
			return err
		}

		p, more := plan.Build(context.Background(), cfg, store, plan.Options{})
		diags = append(diags, more...)
		stageCount = len(p.Stages)
		if !diags.HasErrors() {
			diags = append(diags, cfg.Unused()...)
			diags = append(diags, a.emptyGrids(p)...)
			diags = append(diags, stageWarnings(p)...)
		}
	}

	if c.JSON {
		out := struct {
			Valid       bool              `json:"valid"`
			Stages      int               `json:"stages"`
			Diagnostics []config.DiagJSON `json:"diagnostics"`
		}{!diags.HasErrors(), stageCount, diagsJSON(cfg.Files(), diags)}

		if err := a.json(out); err != nil {
			return err
		}

		return exitIf(diags.HasErrors(), run.ExitError)
	}

	if err := a.report(cfg, diags); err != nil {
		return err
	}

	fmt.Fprintf(a.stdout, "The plan is valid: %s.\n", textutil.Counted(stageCount, "stage"))
	return nil
}

// emptyGrids warns about grids whose filters leave no case.
func (a *app) emptyGrids(p *plan.Plan) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, s := range p.Stages {
		if s.Plan == nil || s.Plan.Waterfall == nil || s.Plan.Waterfall.Cases > 0 || s.Plan.Waterfall.Declared == 0 {
			continue
		}
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagWarning, Summary: "Grid without cases", Subject: s.Instance.Range.Ptr(),
			Detail: fmt.Sprintf("The filters drop every combination (%s). %s explains them.",
				textutil.Count(s.Plan.Waterfall.Declared), a.planCommand(p.Config.Inputs(), "", "why",
					typed(p.Config.Path), textutil.ShellWord(s.Address())))})
	}
	return diags
}

// stageWarnings returns what the stages of the plan warn about.
func stageWarnings(p *plan.Plan) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, s := range p.Stages {
		for _, text := range s.Warnings {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Warning of " + s.Address(),
				Subject: s.Instance.Range.Ptr(), Detail: text + "."})
		}
	}
	return diags
}

// spec checks a system spec: fields, spelling, units.
func (c *validateCmd) spec(a *app) error {
	_, err := systems.LoadFile(c.Path)
	found, problems := errors.AsType[systems.Problems](err)
	if err != nil && !problems {
		return err
	}

	if c.JSON {
		if err := a.json(append(systems.Problems{}, found...)); err != nil {
			return err
		}
	} else {
		for _, p := range found {
			fmt.Fprintln(a.stdout, p)
		}
		fmt.Fprintf(a.stdout, "%s: %s.\n", c.Path, textutil.Counted(len(found), "problem"))
	}

	return exitIf(problems, run.ExitError)
}
