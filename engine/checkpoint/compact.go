package checkpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

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
		pattern = fileName(op)
	}
	dirs, err := fileutil.Glob(s.path("journal"), filepath.Join(pattern, "*"))
	if err != nil {
		return nil, fmt.Errorf("state folder %s: %w", s.Dir, err)
	}

	return slices.DeleteFunc(dirs, func(d string) bool {
		info, err := os.Stat(d)
		return err != nil || !info.IsDir()
	}), nil
}

// closedJournals lists the folders of the journals that this store has not opened.
func (s *Store) closedJournals() ([]string, error) {
	dirs, err := s.journalDirs("")
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(dirs, func(dir string) bool { return s.journals[dir] != nil }), err
}

func (s *Store) compactAll(ctx context.Context, r *GCReport, dry bool) error {
	dirs, err := s.closedJournals()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return err
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

	j := &Journal{store: s, dir: dir}
	if err := j.load(); err != nil {
		return nil, err
	}
	c := &Compacted{Dir: dir, Entries: j.Len(), Segments: len(j.segments), After: int64(len(segmentMagic))}
	for _, path := range j.segments {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fileutil.Explain("read", path, err)
		}
		c.Before += info.Size()
	}

	err := j.scan(func(e Entry) error {
		c.After += int64(len(appendFrame(nil, e)))
		return nil
	})
	if err != nil {
		return nil, err
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
	unlock = func() { closeAll(files) }
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			unlock()
			return nil, fileutil.Explain("read", path, err)
		}

		files = append(files, f)
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			unlock()
			return nil, nil
		}
	}

	return unlock, nil
}

// writeSegment writes the valid entries of j as a new segment with the highest number.
func (s *Store) writeSegment(j *Journal) error {
	path, err := nextSegment(j.dir, "")
	if err != nil {
		return err
	}

	tmp, err := s.writeTemp(j.dir, func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 1<<20)
		if _, err := out.WriteString(segmentMagic); err != nil {
			return err
		}
		err := j.scan(func(e Entry) error {
			_, err := out.Write(appendFrame(nil, e))
			return err
		})
		return errors.Join(err, out.Flush())
	})
	if err != nil {
		return s.explain("write", path, err)
	}

	return s.place(tmp, path)
}
