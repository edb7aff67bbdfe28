package main

import (
	"context"
	"fmt"
	"strings"

	"aicplan/cudaops/doctor"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

type doctorCmd struct {
	Path    string   `arg:"" optional:"" help:"Plan whose preflight checks are run instead." type:"path"`
	Var     []string `help:"Set a variable of the plan (repeatable)." placeholder:"NAME=VALUE" sep:"none"`
	VarFile []string `help:"Read variables from a file (repeatable)." placeholder:"FILE" sep:"none" type:"path"`
	outFlag `embed:""`
	GPU     bool `name:"gpu" help:"Also check every op's numbers and the timers on the GPUs."`
	Verbose bool `short:"v" help:"List the places where missing libraries were searched."`
	JSON    bool `name:"json" help:"Print as JSON."`
}

// Run prints what this machine can measure, or the results of a plan's preflights on it.
func (c *doctorCmd) Run(a *app) error {
	if c.Path != "" {
		return c.preflight(a)
	}

	if c.GPU {
		release, err := a.holdDevices(runtimes.Devices)
		if err != nil {
			return err
		}
		defer release()
	}

	r := doctor.Examine(context.Background(), c.GPU)
	if c.JSON {
		if err := a.json(r); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		b.WriteString(r.Summary() + "\n")
		if len(r.GPUs) == 0 {
			b.WriteString(withoutGPU())
		}
		b.WriteString("\n")
		if err := r.Text(&b, c.Verbose); err != nil {
			return err
		}
		a.wrapLines(b.String())
	}

	return exitIf(!r.OK(), run.ExitError)
}

// withoutGPU lists the runtimes that work on a machine without GPUs.
func withoutGPU() string {
	text := "Without a GPU it measures:\n"
	for _, k := range runtimes.Kinds() {
		if k.UsesGPUs && !k.OnProcessor {
			continue
		}
		text += fmt.Sprintf("  %-9s %s\n", k.Name, k.Summary)
	}
	return text + "  To begin with: aicplan apply plans/quickstart.hcl\n"
}

// preflight runs the preflight stages of the plan on this machine.
func (c *doctorCmd) preflight(a *app) error {
	p, err := a.plan(context.Background(), planFlags{Path: c.Path, Var: c.Var, VarFile: c.VarFile},
		plan.Options{OutDir: c.OutDir})
	if err != nil {
		return err
	}

	var applied run.Applied
	for _, s := range p.Stages {
		switch {
		case s.Instance.Kind.Class != stage.Guard:
			continue
		case s.Config == nil:
			return fmt.Errorf("%s uses what another stage puts out and cannot be run alone", s.Address())
		}

		r, err := runGuard(p, s, true)
		if err != nil {
			return err
		}
		applied.Stages = append(applied.Stages, r)
	}

	if len(applied.Stages) == 0 {
		return fmt.Errorf("%s has no preflight stage", c.Path)
	}

	a.code = applied.ExitCode()
	if c.JSON {
		return a.json(gateGroups(&applied))
	}

	a.preflights(applied.Stages)
	return nil
}
