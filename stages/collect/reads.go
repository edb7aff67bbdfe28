package collect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// readsWord is the field of contexts and keys for what the op reads.
const readsWord = "reads"

// checkReads resolves the stages whose files the op reads.
func (c *Config) checkReads() error {
	if len(c.ReadsFiles) == 0 && !stage.IsSet(c.Reads) {
		return nil
	}
	switch {
	case c.runtime == nil || c.kind().Reads:
	case c.kind().Binds == "":
		return fmt.Errorf("workers of kind %s read no files; remove reads and reads_files", c.runtime.Kind)
	case stage.IsSet(c.Reads): // but a kernel may include files, and is compiled from their content
		return fmt.Errorf("workers of kind %s read no files of other stages; remove reads", c.runtime.Kind)
	}
	if c.Elsewhere() {
		return errors.New("tasks of an executor do not have files of this machine; remove executor or reads")
	}
	if !stage.IsSet(c.Reads) {
		return nil
	}

	var err error
	c.reads, err = stage.RefsOf(c.Reads)
	return err
}

// resolve sets readIDs to the identities of the stages that the op reads and the digest of its other
// files. It returns false if one of the stages has not run yet. Once the stage has run, it changes nothing:
// the rows belong to the files that they were measured with.
func (c *Config) resolve(ctx context.Context, pc *stage.PlanContext) (bool, error) {
	if c.pinned {
		return true, nil
	}

	var err error
	c.kindFiles, c.kindFilesID = nil, ""
	if files := c.kind().Files; files != nil {
		c.kindFiles = files(c.runtime, pc.PlanDir, c.blocks)
	}
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

	for _, path := range c.ReadsFiles {
		abs, _ := filepath.Abs(path)
		if rel, err := filepath.Rel(abs, pc.Store.Dir); err == nil && filepath.IsLocal(rel) {
			return false, fmt.Errorf("reads_files: %s has the state folder %s, which every run changes; name the files and "+
				"folders that the op reads", path, pc.Store.Dir)
		}
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
	for _, ref := range r.reads {
		read := worker.Read{Stage: ref.Address, Dir: r.rc.OutDir, Files: []string{}}
		for _, f := range r.rc.Upstream() {
			if f.Address != ref.Address || f.Outcome == nil {
				continue
			}
			for _, a := range f.Outcome.Artifacts {
				read.Files = append(read.Files, a.Path)
			}
		}
		out = append(out, read)
	}
	return out
}

// contentOf returns a digest of files, and of folders including their content. It covers file contents and paths
// relative to each argument, not the location of the arguments. A path that does not exist has no content.
func contentOf(ctx context.Context, paths []string) (string, error) {
	w := &contents{ctx: ctx, all: sha256.New()}
	for i, path := range paths {
		fmt.Fprintf(w.all, "%d\x00", i)
		w.seen = map[string]string{}
		if err := w.add(path, "."); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("sha256:%x", w.all.Sum(nil)), nil
}

// contents adds everything under one path to the digest.
type contents struct {
	ctx  context.Context
	all  hash.Hash
	seen map[string]string // resolved folders and their relative paths
}

// add adds a file or the content of a folder, following links. place is the location relative to the root path. A
// folder that was seen before is recorded by its first location and not read again, because links may form cycles.
func (w *contents) add(path, place string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}

	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it may be a dangling link
	case err != nil:
		return err
	case info.Mode().IsRegular():
		sum, err := runtimes.FileSum(path)
		fmt.Fprintf(w.all, "%q %s\x00", place, sum)
		return err
	case !info.IsDir():
		return nil
	}

	if path, err = filepath.EvalSymlinks(path); err != nil {
		return err
	}
	if first, ok := w.seen[path]; ok {
		fmt.Fprintf(w.all, "%q is %q\x00", place, first)
		return nil
	}
	w.seen[path] = place

	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.add(filepath.Join(path, e.Name()), filepath.Join(place, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
