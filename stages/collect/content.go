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

	"aicplan/stages/runtimes"
)

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
