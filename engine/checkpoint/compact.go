package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"aicplan/sink/base/fileutil"
)

// Compacted reports the compaction of one journal.
type Compacted struct {
	Dir      string `json:"dir"`
	Entries  int    `json:"entries"`
	Segments int    `json:"segments"` // before the compaction; it leaves one
	Before   int64  `json:"before"`
	After    int64  `json:"after"`
}

// journalDirs lists the folders of journals. An empty op selects all ops. Other files (.DS_Store, .nfs
// files) are skipped.
func (s *Store) journalDirs(op string) ([]string, error) {
	pattern := "*"
	if op != "" {
		pattern = globEscape(fileName(op))
	}
	dirs, err := filepath.Glob(filepath.Join(globEscape(s.path("journal")), pattern, "*"))
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", s.dir, err)
	}

	return slices.DeleteFunc(dirs, func(d string) bool {
		info, err := os.Stat(d)
		return err != nil || !info.IsDir()
	}), nil
}

func (s *Store) compactAll(ctx context.Context, r *GCReport, dry bool) error {
	dirs, err := s.journalDirs("")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.mu.Lock()
		open := s.journals[dir] != nil
		s.mu.Unlock()
		if open {
			continue
		}

		c, err := s.compact(dir, dry)
		if err != nil {
			return err
		}
		if c != nil {
			r.Compacted = append(r.Compacted, *c)
			r.Bytes += c.Before - c.After
		}
	}

	return nil
}

// compact rewrites a journal as one segment with only the valid entries, in their order. It makes the
// new segment durable before it removes the old ones, so a crash never loses entries. It returns nil if
// there is nothing to do.
//
// A journal is skipped if another process appends to one of its segments.
func (s *Store) compact(dir string, dry bool) (*Compacted, error) {
	if !dry {
		unlock, err := lockSegments(dir)
		if err != nil || unlock == nil {
			return nil, err
		}
		defer unlock()
	}

	j := &Journal{store: s, dir: dir, counts: map[Kind]int{}}
	if err := j.load(); err != nil {
		return nil, err
	}
	defer j.readers.close()
	c := &Compacted{Dir: dir, Entries: j.Len(), Segments: len(j.segments), After: int64(len(segmentMagic))}

	for _, path := range j.segments {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fileutil.Explain("read", path, err)
		}
		c.Before += info.Size()
	}

	for id, r := range j.entries {
		if r.kind != Withdrawn {
			c.After += int64(r.size)
		}
		if r.epoch > 0 {
			c.After += int64(len(appendFrame(nil, j.withdrawal(id, r))))
		}
	}

	if len(j.segments) == 0 || (len(j.segments) == 1 && c.After == c.Before && len(j.damage) == 0) {
		return nil, nil
	}
	if dry {
		return c, nil
	}

	if err := s.writeSegment(j); err != nil {
		return nil, err
	}
	for _, path := range j.segments {
		if err := s.files.Remove(path); err != nil {
			return nil, s.explain("remove", path, err)
		}
	}

	if err := s.files.SyncDir(dir); err != nil {
		return nil, s.explain("remove from", dir, err)
	}

	return c, nil
}

// lockSegments locks the segments of a folder. It returns nil if another process appends to one of
// them.
func lockSegments(dir string) (unlock func(), err error) {
	paths, err := segmentPaths(dir)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	unlock = func() {
		for _, f := range files {
			f.Close()
		}
	}

	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			unlock()
			return nil, fileutil.Explain("read", path, err)
		}

		files = append(files, f)
		if inUse(f) {
			unlock()
			return nil, nil
		}
	}

	return unlock, nil
}

// writeSegment writes the valid entries of j as a new segment with the highest number.
func (s *Store) writeSegment(j *Journal) error {
	return s.putSegment(j.dir, func(yield func(Entry, error) bool) {
		for _, e := range j.withdrawals() {
			if !yield(e, nil) {
				return
			}
		}
		j.All()(yield)
	})
}

// putSegment atomically writes entries as a new segment with the highest number.
func (s *Store) putSegment(dir string, entries iter.Seq2[Entry, error]) error {
	path, err := nextSegment(dir, "")
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, tempPrefix+randomHex(8))
	f, err := s.files.Create(tmp)
	if err != nil {
		return s.explain("write", path, err)
	}

	err = func() error {
		buf := []byte(segmentMagic)
		for e, err := range entries {
			if err != nil {
				return err
			}
			if buf = appendFrame(buf, e); len(buf) >= 1<<20 {
				if _, err := f.Write(buf); err != nil {
					return err
				}
				buf = buf[:0]
			}
		}

		if _, err := f.Write(buf); err != nil {
			return err
		}

		return f.Sync()
	}()

	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.files.Rename(tmp, path)
	}

	if err == nil {
		err = s.files.SyncDir(dir)
	} else {
		err = errors.Join(err, s.files.Remove(tmp))
	}

	if err != nil {
		return s.explain("write", path, err)
	}

	return nil
}
