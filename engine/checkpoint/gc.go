package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/base/fileutil"
)

// GCOptions are the options of Store.GC.
type GCOptions struct {
	// DryRun reports what GC would remove, without removing it.
	DryRun bool
	// KeepRuns is the number of newest run folders to keep.
	KeepRuns int
}

// GCReport lists what GC removed, or would remove in a dry run.
type GCReport struct {
	Removed []Removed `json:"removed"`
	// Bytes is the space freed, including journals.
	Bytes int64 `json:"bytes"`
	// Kept counts the objects that are still referenced.
	Kept ObjectStats `json:"kept"`
	// Compacted lists the journals that were rewritten without superseded entries and damage.
	Compacted []Compacted `json:"compacted"`
}

// Removed is one file or run folder.
type Removed struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// GC removes objects without references, leftovers of crashes, damaged records and objects, and old run
// folders. It also compacts journals that contain superseded entries or damage. GC takes the run lock
// unless this store already has it, and fails with a *LockedError if another process does, follows jobs or appends to
// a journal. A dry run takes no lock. Journals that this store has open are skipped.
func (s *Store) GC(ctx context.Context, opts GCOptions) (*GCReport, error) {
	if _, err := os.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return &GCReport{}, nil
	}
	switch {
	case s.holds():
	case opts.DryRun:
		if err := s.idle(); err != nil {
			return nil, err
		}

	default:
		lock, err := s.Lock(LockInfo{Command: "aicplan ckpt gc"})
		if err != nil {
			return nil, err
		}
		defer lock.Release()
	}

	// A run that follows jobs continues with the objects and the journals that its plan has found.
	following, err := s.Following()
	if err != nil {
		return nil, err
	}
	for _, f := range following {
		if f.Alive {
			return nil, f
		}
	}

	// Jobs that no run follows store attachments before the entries that name them.
	if path, err := s.appended(); err != nil {
		return nil, err
	} else if path != "" {
		return nil, &LockedError{Dir: s.Dir, Journal: path}
	}

	r := &GCReport{}
	drop, err := s.garbage(ctx, r, opts)
	if err != nil {
		return nil, err
	}

	for _, d := range drop {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if !opts.DryRun {
			if err := os.RemoveAll(d.Path); err != nil {
				return r, s.explain("remove", d.Path, err)
			}
		}

		r.Removed = append(r.Removed, d)
		r.Bytes += d.Bytes
	}

	return r, s.compactAll(ctx, r, opts.DryRun)
}

func (s *Store) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held != nil
}

// idle returns a *LockedError if another process has the run lock. It does not take the lock.
func (s *Store) idle() error {
	h, err := s.Locked()
	if h == nil || err != nil {
		return nil // a damaged lock file is replaced
	}
	return s.replace(h, false)
}

// appended returns a segment of a journal that another process appends to, or "".
func (s *Store) appended() (string, error) {
	dirs, err := s.closedJournals()
	if err != nil {
		return "", err
	}

	for _, dir := range dirs {
		paths, err := segmentPaths(dir)
		if err != nil {
			return "", err
		}
		for _, path := range paths {
			if errors.Is(fileutil.TryLock(path), fileutil.ErrBusy) {
				return path, nil
			}
		}
	}

	return "", nil
}

// garbage lists the files and folders to remove, sorted by path. It adds the objects to keep to r.Kept.
func (s *Store) garbage(ctx context.Context, r *GCReport, opts GCOptions) ([]Removed, error) {
	drop, err := s.strays()
	if err != nil {
		return nil, err
	}
	objects := map[string]Removed{} // by digest
	err = s.walkObjects(func(path, digest string, info fs.FileInfo) error {
		objects[digest] = Removed{Path: path, Bytes: info.Size(), Why: "no stage record names it"}
		return nil
	})
	if err != nil {
		return nil, err
	}

	used := map[string]bool{}
	err = s.eachStage(func(path string, rec *StageRecord, err error) error {
		if errors.Is(err, ErrCorrupt) {
			drop = append(drop, removed(path, "a damaged stage record"))
			return nil
		}
		if err != nil {
			return err // the references are unknown, so no object may be removed
		}
		for _, d := range rec.Outputs.Digests() {
			used[d] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	if slices.ContainsFunc(slices.Collect(maps.Keys(objects)), func(d string) bool { return !used[d] }) {
		if err := s.attachments(ctx, func(_, digest, _, _ string) { used[digest] = true }); err != nil {
			return nil, err
		}
	}

	for digest, o := range objects {
		if used[digest] {
			r.Kept.Count++
			r.Kept.Bytes += o.Bytes
		} else {
			drop = append(drop, o)
		}
	}

	runs, err := s.Runs()
	if err != nil {
		return nil, err
	}
	for _, run := range runs[:max(0, len(runs)-opts.KeepRuns)] {
		drop = append(drop, removed(run.Dir, fmt.Sprintf("older than the last %d runs", opts.KeepRuns)))
	}

	slices.SortFunc(drop, func(a, b Removed) int { return strings.Compare(a.Path, b.Path) })
	return drop, nil
}

// hostPatience is the age at which the temporary file of a worker host is considered abandoned.
const hostPatience = time.Minute

func changedBefore(d fs.DirEntry, patience time.Duration) bool {
	info, err := d.Info()
	return err == nil && time.Since(info.ModTime()) > patience
}

// strays lists leftover temporary files and damaged objects.
func (s *Store) strays() ([]Removed, error) {
	var out []Removed
	err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fileutil.Explain("read", path, err)
		case d.IsDir():
			if path == s.path("runs") {
				return fs.SkipDir // run folders contain files of other packages
			}
			return nil

		case strings.HasPrefix(d.Name(), tempPrefix):
			out = append(out, removed(path, "left by a write that did not finish"))
		case filepath.Dir(path) == s.path("hosts") && strings.HasSuffix(d.Name(), ".tmp") &&
			changedBefore(d, hostPatience):
			out = append(out, removed(path, "left by a start of a worker that did not finish"))
		case filepath.Dir(filepath.Dir(path)) == s.path("objects") && strings.HasSuffix(path, corruptSuffix):
			out = append(out, removed(path, "a damaged object"))
		}

		return nil
	})

	return out, err
}

// removed returns an entry for a file or folder, with its total size.
func removed(path, why string) Removed {
	r := Removed{Path: path, Why: why}
	// A file without a readable size counts as empty: its removal will report the error.
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				r.Bytes += info.Size()
			}
		}

		return nil
	})

	return r
}
