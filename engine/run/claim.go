package run

import (
	"encoding/json"
	"path/filepath"

	"aicplan/engine/stage"
)

// claim returns what a stage asks before it writes a file as a whole: "" where the
// file is its own, else the stage of this plan whose file it is.
func (r *runner) claim(address string) func(path string) string {
	return func(path string) string {
		path = filepath.Clean(path)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.claims == nil {
			r.claims = r.writtenBefore()
		}
		if owner := r.claims[path]; owner != "" && owner != address {
			return owner
		}
		r.claims[path] = address
		return ""
	}
}

// writtenBefore are the files of stages that do not run: those that are reused,
// and those that the run leaves out. Their files stay.
func (r *runner) writtenBefore() map[string]string {
	runs := map[string]bool{}
	for _, s := range r.plan.Stages {
		runs[s.Address()] = s.Action != stage.ActionReuse
	}
	out := map[string]string{}
	for _, in := range r.plan.Config.Instances {
		if runs[in.Address] {
			continue
		}
		rec, err := r.plan.Store.ReadStage(in.Address)
		if err != nil || len(rec.Artifacts) == 0 {
			continue // never run, or damaged, which planning says
		}
		var files []stage.Artifact
		if json.Unmarshal(rec.Artifacts, &files) != nil {
			continue
		}
		for _, f := range files {
			out[filepath.Clean(f.Path)] = in.Address
		}
	}
	return out
}
