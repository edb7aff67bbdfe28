package collect

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// readsWord is the field of contexts and keys for what the op reads.
const readsWord = "reads"

// checkReads resolves the stages whose files the op reads.
func (c *Config) checkReads() error {
	if len(c.ReadsFiles) > 0 && c.runtime != nil && !c.about().Reads {
		return fmt.Errorf("workers of kind %s read no files; remove reads_files", c.runtime.Kind)
	}
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

	if c.runtime != nil && !c.about().Reads {
		return fmt.Errorf("workers of kind %s read no files of other stages; remove it", c.runtime.Kind)
	}

	c.reads = refs
	return nil
}

// resolve sets readIDs to the identities of the stages that the op reads and the digest of its other
// files. It returns false if one of the stages has not run yet. Once the stage has run, it changes nothing:
// the rows belong to the files that they were measured with.
func (c *Config) resolve(ctx context.Context, pc *stage.PlanContext) (bool, error) {
	if c.pinned {
		return true, nil
	}

	var err error
	c.kindFiles, c.kindFilesID = c.kind().Files(c.runtime, pc.PlanDir, c.blocks), ""
	if len(c.kindFiles) > 0 {
		if c.kindFilesID, err = contentOf(ctx, c.kindFiles); err != nil {
			return false, err
		}
	}

	c.readIDs = nil
	for _, ref := range c.reads {
		id := pc.Identity(ref)
		if id == "" {
			c.readIDs = nil
			return false, nil
		}
		c.readIDs = append(c.readIDs, id)
	}

	if len(c.ReadsFiles) > 0 {
		if c.readsFilesID, err = contentOf(ctx, c.ReadsFiles); err != nil {
			return false, fmt.Errorf("reads_files: %w", err)
		}
		c.readIDs = append(c.readIDs, c.readsFilesID)
	}

	return true, nil
}

// readFiles returns the files of upstream stages that are sent to workers.
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

// readsElsewhere returns an error if the op reads local files and an executor is set, because its tasks
// may not have these files.
func (c *Config) readsElsewhere() hcl.Diagnostics {
	if len(c.reads) == 0 && len(c.ReadsFiles) == 0 || !c.Elsewhere() {
		return nil
	}
	return hcl.Diagnostics{{
		Severity: hcl.DiagError, Summary: "Wrong executor",
		Detail: "This collect reads files of this machine, such as those that other stages write into the output folder, which tasks of an executor do not have; remove executor or reads.",
	}}
}
