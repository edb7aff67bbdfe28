package main

import (
	"fmt"
	"strings"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/report"
	"aicplan/stages/report/model"
)

type failuresCmd struct {
	GroupBy   []string `help:"Columns of the ledger or of the cases." default:"op,class,message" placeholder:"COLUMN"`
	Status    string   `help:"failed, skipped or all." enum:"failed,skipped,all" default:"failed"`
	Stage     []string `help:"Only ledgers of these stages (glob, repeatable)." placeholder:"ADDRESS" sep:"none"`
	Format    string   `help:"table, json or markdown." enum:"table,json,markdown" default:"table"`
	JSON      bool     `name:"json" help:"Print as JSON."`
	Traceback bool     `help:"Show the example's traceback below its group."`
}

// Help implements kong's help.
func (failuresCmd) Help() string {
	return `Columns of the ledger are stage, op, class, type, message, status, group, framework, version, worker,
device_uuid and attempts.`
}

// Run groups the cases that have no measurement.
func (c *failuresCmd) Run(a *app, store *checkpoint.Store) error {
	if err := store.Created(); err != nil {
		return err
	}
	sources, err := ledgers(store, a.stages().Kinds, c.Stage)
	if err != nil {
		return err
	}

	groups, err := model.GroupFailures(sources, c.Status, c.GroupBy...)
	if err != nil {
		return err
	}

	if c.JSON {
		c.Format = "json"
	}

	switch c.Format {
	case "json":
		if groups == nil {
			groups = []model.FailureGroup{}
		}
		return a.json(groups)
	case "markdown":
		if len(groups) > 0 {
			return model.WriteFailuresMarkdown(a.stdout, groups)
		}
	}

	what := map[string]string{"failed": "failed", "skipped": "skipped", "all": "failed or skipped"}[c.Status]

	if len(groups) == 0 {
		fmt.Fprintf(a.stdout, "No %s cases in %s of %s.\n", what, textutil.Some(len(sources), "ledger"), store.Dir)
		return nil
	}

	next := a.nextOf(store)
	for _, g := range groups {
		advice, command := next(g)
		if err := g.WriteText(a.stdout, a.columns(), advice, command); err != nil {
			return err
		}
		if c.Traceback && g.Example.Traceback != "" {
			fmt.Fprintf(a.stdout, "          %s\n",
				strings.ReplaceAll(strings.TrimSpace(g.Example.Traceback), "\n", "\n          "))
		}
	}

	a.wrap(2, "", fmt.Sprintf("%s in %s. A case's whole story: %s",
		textutil.Some(model.TotalFailures(groups), what+" case"), textutil.Some(len(groups), "group"),
		strings.ReplaceAll(a.command("show", "'"+groups[0].Example.Stage+"'", "--ledger"), " ", keep)))

	return nil
}

// nextOf returns a function with the advice for a group of failures and, if there is one, the command
// for it. The command uses the plan that was applied last.
func (a *app) nextOf(store *checkpoint.Store) func(model.FailureGroup) (advice, command string) {
	apply := a.command("apply", "PLAN")
	if past, _, err := report.LastActive(store); err == nil && past.Plan != "" {
		apply = a.planCommand(past.Inputs, past.OutDir, "apply", typed(past.Plan))
	}

	return func(g model.FailureGroup) (advice, command string) {
		switch g.Example.Class {
		case worker.ClassCollectorBug:
			return "correct the op and apply again: what a changed Python function failed at is measured again; elsewhere " +
				"add --retry failed", apply

		case worker.ClassUnsupportedConfig:
			if g.Example.Status == "skipped" {
				return "nothing: the attribute unsupported of the collect block lists them", ""
			}
			return "leave such cases out with a filter of the grid, or list their values and the reason in the attribute " +
				"unsupported of the collect block", ""

		case worker.ClassFrameworkBug, worker.ClassResourceIssue, worker.ClassTransient, worker.ClassTimeout:
			return "try them again, when the cause is gone", apply + " --retry failed"

		case "tripped":
			return "correct what the group failed at, then try it again", apply + " --retry tripped"

		case "ramp":
			return "correct what the sample failed at, then try it again", apply + " --retry failed"

		case "interrupted":
			return "go on", apply

		case "not_selected":
			return "measure them too, without --limit and --smoke", apply
		}

		return "", ""
	}
}

// ledgers reads the ledgers of the collect stages in the state folder. Without globs, it skips stages
// that are no longer in their plan.
func ledgers(store *checkpoint.Store, kinds map[string]stage.Kind, globs []string) ([]model.StageLedger, error) {
	records, err := store.Stages()
	if err != nil {
		return nil, err
	}

	var out []model.StageLedger
	known := false
	gone, err := report.Removed(store, records)
	if err != nil {
		return nil, err
	}

	for _, rec := range records {
		if kinds[rec.Kind].Class != stage.Measure || rec.Outputs.Ledger == "" || len(globs) == 0 && gone[rec.Address] {
			continue
		}
		if len(globs) > 0 && !plan.MatchAny(globs, rec.Address) {
			continue
		}

		known = true
		only := *rec
		only.Outputs.Table, only.Outputs.Planned = "", "" // only the ledger is needed
		d, err := run.LoadDataset(store, &only)
		if err != nil {
			return nil, err
		}

		out = append(out, model.StageLedger{Address: rec.Address, Dataset: d})
	}

	if len(globs) > 0 && !known {
		return nil, fmt.Errorf("no collect stage of %s fits %s; aicplan ckpt list shows the stages", store.Dir,
			strings.Join(globs, ", "))
	}

	return out, nil
}
