package plan

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// Name returns the name of the plan in records.
func (p *Plan) Name() string { return NameOf(p.Config) }

// NameOf returns the Name of the plans of cfg.
func NameOf(cfg *config.Config) string { return checkpoint.PlanName(cfg.Path) }

// shown returns the recorded name of a plan, as short as possible but different from that of another one.
func shown(recorded, other string) string {
	if base := path.Base(recorded); base != path.Base(other) {
		return base
	}
	return recorded
}

// writtenFiles returns the files that the state folder knows, with the record of the stage that wrote them last.
func (p *Plan) writtenFiles() map[string]*checkpoint.StageRecord {
	out := map[string]*checkpoint.StageRecord{}
	records, err := p.Store.Stages()
	if err != nil {
		return out // the store has reported damaged records
	}
	for _, r := range records {
		arts, err := ReadArtifacts(r)
		if err != nil {
			continue
		}
		for _, a := range arts {
			if old := out[a.Path]; old == nil || old.FinishedAt.Before(r.FinishedAt) {
				out[a.Path] = r
			}
		}
	}

	return out
}

// takesOver returns one warning about records of another plan that stages with the same addresses are going to
// replace.
func (p *Plan) takesOver() hcl.Diagnostics {
	by := map[string][]string{}
	for _, s := range p.Stages {
		r := s.Record
		if r == nil || r.Plan == p.Name() || s.Class() == stage.Guard || s.Class() == stage.Source {
			continue
		}
		if !s.stays() {
			by[r.Plan] = append(by[r.Plan], s.Address())
		}
	}

	var diags hcl.Diagnostics
	for _, other := range slices.Sorted(maps.Keys(by)) {
		diags = append(diags, &hcl.Diagnostic{
			Severity: hcl.DiagWarning,
			Summary:  "Records of another plan",
			Detail: fmt.Sprintf(
				"The plan %s has stages of the same addresses in this state folder, and an apply replaces their records: %s. "+
					"Measured cases of both are kept. Give each plan a folder of its own with --state-dir to keep the records too; "+
					"if %s was renamed to %s, there is nothing to do.",
				shown(other, p.Name()),
				textutil.First(by[other], 3, ", "),
				shown(other, p.Name()),
				shown(p.Name(), other),
			),
		})
	}

	return diags
}

// sampled reports whether --limit or --smoke leaves out cases of a stage whose rows reach s.
func (p *Plan) sampled(s *Stage) bool {
	for address := range p.upstreamOf(s) {
		if up := p.byAddr[address].Plan; up != nil && up.Cases != nil && up.Cases.LeftOut > 0 {
			return true
		}
	}
	return false
}

// replaces returns warnings about files that the stage is going to replace and that another plan, or a run with
// another state folder, has written.
func (p *Plan) replaces(s *Stage) []string {
	w, ok := s.Config.(stage.FileWriter)
	if !ok || p.Options.OutDir == "" || p.forecasts == nil {
		return nil
	}
	var out []string
	for _, f := range w.Files(p.forecast, p.sampled(s)) {
		file := filepath.Join(p.Options.OutDir, f)
		by := p.written()[file]
		if by != nil && by.Plan == p.Name() {
			continue
		}
		if _, err := os.Stat(file); err != nil {
			continue // it was removed
		}

		of := "no record of this state folder names: the stage wrote another file since, or another state folder shares " +
			"the output folder"
		if by != nil {
			of = "the plan " + shown(by.Plan, p.Name()) + " wrote"
		}
		out = append(out, fmt.Sprintf("%s replaces %s, which %s; choose another folder with --out-dir, or another file, to "+
			"keep both", s.Address(), file, of))
	}

	return out
}

// Uses returns the addresses of the stages whose records the plan reads and writes, with the files of each.
func (p *Plan) Uses() (reads, writes []string) {
	for _, s := range p.Stages {
		if class := s.Class(); class == stage.Guard || class == stage.Source {
			continue // no plan reads their records
		}

		names := []string{s.Address()}
		if w, ok := s.Config.(stage.FileWriter); ok {
			for _, f := range w.Files(p.forecast, p.sampled(s)) {
				names = append(names, filepath.Join(p.Options.OutDir, f))
			}
		}

		if s.stays() {
			reads = append(reads, names...)
		} else {
			writes = append(writes, names...)
		}
	}
	return reads, writes
}
