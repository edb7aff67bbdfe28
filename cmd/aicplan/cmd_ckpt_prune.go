package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/phrase"
)

type ckptPruneCmd struct {
	planFlags `embed:""`
	DryRun    bool `help:"Only say what would be removed."`
	All       bool `help:"Also records of other plans."`
	JSON      bool `name:"json" help:"Print as JSON."`
}

// Help has examples.
func (c *ckptPruneCmd) Help() string {
	return `Records of renamed and removed stages stay in the state folder. prune removes those that the plan made and has
no stage for any more. Measured cases stay in the journal, exported files where they are: both are named.

Examples:
  aicplan ckpt prune -dry-run plan.hcl
  aicplan ckpt prune -var 'ops=["gemm"]' plan.hcl`
}

// orphan is a record without a stage.
type orphan struct {
	Address string   `json:"address"`
	Plan    string   `json:"plan,omitempty"`
	Files   []string `json:"files,omitempty"` // that the stage wrote; they stay
}

// Run removes the records of stages that the plan does not have.
func (c *ckptPruneCmd) Run(a *app) error {
	all := a.stages()
	defer all.Close()
	cfg, err := a.load(c.planFlags, all)
	if err != nil {
		return err
	}
	var store *checkpoint.Store
	if c.DryRun {
		if store, err = a.open(true); err == nil {
			defer store.Close()
		}
	} else {
		var release func()
		if store, release, err = a.openLocked(); err == nil {
			defer release()
		}
	}
	if err != nil {
		return err
	}
	records, err := store.Stages()
	if err != nil {
		return err
	}
	var gone []orphan
	others := 0
	for _, r := range records {
		if cfg.Instance(r.Address) != nil {
			continue
		}
		if r.Plan != plan.NameOf(cfg) && !c.All {
			others++
			continue
		}
		gone = append(gone, orphan{Address: r.Address, Plan: r.Plan, Files: artifactsOf(r)})
		if !c.DryRun {
			if err := store.RemoveStage(r.Address); err != nil {
				return err
			}
		}
	}
	if c.JSON {
		return a.json(map[string]any{"orphans": gone, "of_others": others, "dry_run": c.DryRun})
	}
	verb := "Removed"
	if c.DryRun {
		verb = "Would remove"
	}
	for _, o := range gone {
		text := ""
		if len(o.Files) > 0 {
			text = "; left where they are: " + strings.Join(o.Files, ", ")
		}
		fmt.Fprintf(a.stdout, "%s the record of %s%s\n", verb, o.Address, text)
	}
	if len(gone) == 0 {
		fmt.Fprintln(a.stdout, "No record is without its stage.")
	}
	if others > 0 {
		fmt.Fprintf(a.stdout, "%s of other plans kept; -all removes them too.\n", phrase.Counted(others, "record"))
	}
	if len(gone) > 0 {
		fmt.Fprintln(a.stdout, "Measured cases stay in the journal; aicplan ckpt gc removes the tables.")
	}
	return nil
}

// artifactsOf are the files that a stage wrote.
func artifactsOf(r *checkpoint.StageRecord) []string {
	var list []stage.Artifact
	if json.Unmarshal(r.Artifacts, &list) != nil {
		return nil
	}
	var out []string
	for _, a := range list {
		out = append(out, a.Path)
	}
	return out
}
