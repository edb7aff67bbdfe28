package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/engine/run"
)

type planCmd struct {
	planFlags    `embed:""`
	selectFlags  `embed:""`
	priceFlag    `embed:""`
	outFlag      `embed:""`
	Out          string `help:"Save the plan for apply." placeholder:"FILE" type:"path"`
	JSON         bool   `name:"json" help:"Print the plan, or its mistakes, as JSON."`
	DetailedExit bool   `name:"detailed-exitcode" help:"Exit 2 when there is work to do."`
	Verbose      bool   `short:"v" help:"Show every filter of every grid."`
}

// planMemory is the memory limit above which the garbage collector runs more often, because plans are
// made on laptops and login nodes. It is a soft limit.
const planMemory = 200 << 20

// Run prints what apply would do. It takes no lock and writes only the file of --out.
func (c *planCmd) Run(a *app) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(planMemory)
	}

	if c.JSON {
		a.diagnosed = func(diags []config.DiagJSON) error {
			return a.json(struct {
				Valid       bool              `json:"valid"`
				Diagnostics []config.DiagJSON `json:"diagnostics"`
			}{false, diags})
		}
	}

	opts := c.options()
	opts.Price, opts.GPUs, opts.OutDir = c.Price, c.Gpus, c.OutDir
	p, err := a.plan(context.Background(), c.planFlags, opts)
	if err != nil {
		return err
	}

	if c.Out != "" {
		if err := plan.Save(c.Out, p, a.settings(c.planFlags, c.options())); err != nil {
			return err
		}
	}

	sum := plan.Summarize(p)
	if !c.JSON {
		a.viewSummary(sum, c.Verbose)
	} else if err := a.json(sum); err != nil {
		return err
	}

	if c.Out != "" && !c.JSON {
		fmt.Fprintf(a.stdout, "\nSaved as %s. To run exactly this:\n  %s\n", shown(c.Out),
			a.planCommand(config.Inputs{}, c.OutDir, "apply", typed(c.Out))) // a saved plan names no folders
		for _, name := range a.sensitive {
			fmt.Fprintf(a.stdout, "It does not contain var.%s, which is sensitive: apply reads it again, from %s, a file, or "+
				"--var.\n",
				name, config.EnvPrefix+name)
		}
	}

	if c.DetailedExit && sum.Work {
		a.code = run.ExitWork
	}

	return nil
}

// settings returns the inputs of a plan, without the values of sensitive variables, which are not written
// to files.
func (a *app) settings(f planFlags, opts plan.Options) plan.Saved {
	s := plan.Saved{Version: version, Path: f.Path, VarFiles: f.VarFile, Options: opts, Sensitive: a.sensitive}
	for _, kv := range f.Var {
		if !s.Withholds(kv) {
			s.Vars = append(s.Vars, kv)
		}
	}

	for _, kv := range a.environ {
		if assignment, ours := strings.CutPrefix(kv, config.EnvPrefix); ours && !s.Withholds(assignment) {
			s.Environ = append(s.Environ, kv)
		}
	}

	return s
}
