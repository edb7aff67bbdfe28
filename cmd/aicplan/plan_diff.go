package main

import (
	"context"
	"fmt"
	"strings"

	"aicplan/engine/config"
	"aicplan/engine/plan"
	"aicplan/sink/base/textutil"
)

// planDiff prints which cases p adds and removes compared with another plan.
func (a *app) planDiff(ctx context.Context, p *plan.Plan, c *planCmd) error {
	var old plan.CaseSets
	if plan.IsSaved(c.Diff) {
		saved, err := plan.Open(c.Diff)
		if err != nil {
			return err
		}
		if old, err = saved.Sets(); err != nil {
			return fmt.Errorf("%s: %w", c.Diff, err)
		}
	} else {
		// The flags apply to this plan. The other plan may lack the stages and variables that they name.
		load, opts := a.loadOptions(c.planFlags), c.options()
		load.Path, load.Shared, opts.Shared = c.Diff, true, true
		cfg, diags := config.Load(load)
		if err := a.report(cfg, diags); err != nil {
			return err
		}

		q, diags := plan.Build(ctx, cfg, p.Store, opts)
		if err := a.report(cfg, diags); err != nil {
			return err
		}

		old = plan.Sets(q)
	}

	diffs := plan.DiffSets(old, plan.Sets(p))
	if c.JSON {
		return a.json(diffs)
	}

	same, added, removed := 0, 0, 0
	for _, d := range diffs {
		added, removed = added+d.Added, removed+d.Removed
		if d.Added == 0 && d.Removed == 0 {
			same++
			continue
		}
		fmt.Fprintf(a.stdout, "  %-32s %10s -> %-10s +%s -%s\n", d.Op, textutil.Count(d.Old),
			textutil.Count(d.New), textutil.Count(d.Added), textutil.Count(d.Removed))
		for _, line := range []struct {
			text   string
			values []string
		}{
			{"only the added cases have", d.AddedHave}, {"all added cases have", d.AddedWithin},
			{"only the removed cases have", d.RemovedHave}, {"all removed cases have", d.RemovedWithin},
		} {
			if len(line.values) > 0 {
				a.hanging(6, "    "+line.text, strings.Join(line.values, "; "))
			}
		}
	}

	fmt.Fprintf(a.stdout, "Diff: %s cases added, %s removed; %d ops unchanged.\n", textutil.Count(added),
		textutil.Count(removed), same)

	return nil
}
