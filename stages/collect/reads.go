package collect

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// readsWord is where contexts and keys have what the op reads.
const readsWord = "reads"

// checkReads finds the stages whose files the op reads.
func (c *Config) checkReads() error {
	if !isSet(c.Reads) {
		return nil
	}
	refs, err := stage.RefsOf(c.Reads)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, ref := range refs {
		if seen[ref.Address] {
			return fmt.Errorf("%s is named twice", ref.Address)
		}
		seen[ref.Address] = true
	}
	if c.runtime != nil && !c.kind().Reads {
		return fmt.Errorf("workers of kind %s read no files of other stages; remove it", c.runtime.Kind)
	}
	c.reads = refs
	return nil
}

// resolve learns what the stages that the op reads have written. It is false
// while one of them has not run.
func (c *Config) resolve(pc *stage.PlanContext) bool {
	c.readIDs = nil
	for _, ref := range c.reads {
		id := pc.Identity(ref)
		if id == "" {
			c.readIDs = nil
			return false
		}
		c.readIDs = append(c.readIDs, id)
	}
	return true
}

// readFiles is what workers are told of the stages that the op reads.
func (r *running) readFiles() []worker.Read {
	var out []worker.Read
	ended := map[string]*stage.Outcome{}
	if len(r.reads) > 0 {
		for _, f := range r.rc.Upstream() {
			ended[f.Address] = f.Outcome
		}
	}
	for _, ref := range r.reads {
		read := worker.Read{Stage: ref.Address, Dir: r.rc.OutDir, Files: []string{}}
		if o := ended[ref.Address]; o != nil {
			for _, a := range o.Artifacts {
				read.Files = append(read.Files, a.Path)
			}
		}
		out = append(out, read)
	}
	return out
}

// readsElsewhere refuses an executor: its tasks may run where the output folder
// is not.
func (c *Config) readsElsewhere() hcl.Diagnostics {
	if len(c.reads) == 0 || !c.Elsewhere() {
		return nil
	}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Wrong executor",
		Detail: "This collect reads files that other stages write into the output folder, which tasks of an executor do not have; remove executor or reads.",
	}}
}
