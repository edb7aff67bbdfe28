package run

import (
	"path/filepath"

	"aicplan/engine/plan"
)

// claim returns a function that a stage calls before it writes a file. It returns the stage of this plan that owns
// the file, or "" if the caller may write it.
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

// writtenBefore returns the files of stages that the plan reuses or leaves out, with the stages. These files are kept.
// A stage that turns out to be reused later claims its files then.
func (r *runner) writtenBefore() map[string]string {
	out := map[string]string{}
	for _, in := range r.plan.Config.Instances {
		if _, reused := r.kept[in.Address]; !reused && r.plan.Stage(in.Address) != nil {
			continue
		}

		rec, err := r.plan.Store.ReadStage(in.Address)
		if err != nil {
			continue // it never ran, or planning reports the damage
		}

		files, err := plan.ReadArtifacts(rec)
		if err != nil {
			continue
		}
		for _, f := range files {
			out[filepath.Clean(f.Path)] = in.Address
		}
	}
	return out
}
