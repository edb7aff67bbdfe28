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

	all := a.stages()
	defer all.Close()
	if err := c.notSaved(); err != nil {
		return err
	}

	cfg, diags := config.Load(a.loadOptions(c.planFlags, all))
	stageCount := 0
	if !diags.HasErrors() {
		store, err := a.open(true)
		if err != nil {
			return err
		}

		defer store.Close()
		p, more := plan.Build(context.Background(), cfg, store, plan.Options{})
		diags = append(diags, more...)
		stageCount = len(p.Stages)
		if !diags.HasErrors() {
			diags = append(diags, cfg.Unused()...)
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

		if diags.HasErrors() {
			return &exitError{code: run.ExitError, quiet: true}
		}

		return nil
	}

	if err := a.report(cfg, diags); err != nil {
		return err
	}

	fmt.Fprintf(a.stdout, "The plan is valid: %s.\n", textutil.Counted(stageCount, "stage"))
	return nil
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

	if problems {
		return &exitError{code: run.ExitError, quiet: true}
	}

	return nil
}
