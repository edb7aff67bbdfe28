package plan

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/stage"
)

// Name is how records name the plan: its file or folder without the path, which
// differs from machine to machine.
func (p *Plan) Name() string { return NameOf(p.Config) }

// NameOf is the Name of plans that cfg makes.
func NameOf(cfg *config.Config) string {
	if abs, err := filepath.Abs(cfg.Path); err == nil {
		return filepath.Base(abs)
	}
	return filepath.Base(cfg.Path)
}

// writtenFiles are the files that the state folder knows, with the record of
// the stage that wrote them last.
func (p *Plan) writtenFiles() map[string]*checkpoint.StageRecord {
	out := map[string]*checkpoint.StageRecord{}
	records, err := p.Store.Stages()
	if err != nil {
		return out // damaged records are warned about elsewhere
	}
	for _, r := range records {
		var arts []stage.Artifact
		if len(r.Artifacts) == 0 || json.Unmarshal(r.Artifacts, &arts) != nil {
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

// replaces warns of files that another plan wrote and the stage is going to
// replace.
func (p *Plan) replaces(s *Stage) []string {
	w, ok := s.Config.(stage.FileWriter)
	if !ok || p.Options.OutDir == "" {
		return nil
	}
	var out []string
	for _, f := range w.Files() {
		path := filepath.Join(p.Options.OutDir, f)
		by := p.written()[path]
		if by == nil || by.Plan == "" || by.Plan == p.Name() {
			continue
		}
		if _, err := fileDigest(path); err != nil {
			continue // it is gone already
		}
		out = append(out, fmt.Sprintf("%s replaces %s, which the plan %s wrote; choose another folder with -out-dir, or another file, to keep both", s.Address(), path, by.Plan))
	}
	return out
}
