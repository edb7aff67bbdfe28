package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"aicplan/sink/atomic"
)

// Compacted is one journal.
type Compacted struct {
	Dir      string `json:"dir"`
	Entries  int    `json:"entries"`
	Segments int    `json:"segments"` // before; one after
	Before   int64  `json:"before"`
	After    int64  `json:"after"`
}

// journalDirs lists the folders of journals, of one op or, when op is "", of all.
// What else lies there (.DS_Store, .nfs files) is not ours.
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

// compact rewrites a journal as one segment with the entries that count, in
// their order. The new segment is durable before the old ones go, so that a
// crash at any moment leaves every entry, at worst twice.
//
// A journal that somebody appends to is left alone. Where locks do not show that,
// an entry that is appended meanwhile is kept by one of two: this reads the
// removed files again, and the writer looks after every write whether its file
// still has its name.
func (s *Store) compact(dir string, dry bool) (*Compacted, error) {
	j := &Journal{store: s, dir: dir, counts: map[Kind]int{}}
	old, busy, err := openSegments(dir, dry)
	defer old.close()
	if busy || err != nil {
		return nil, err
	}
	if err := j.load(); err != nil {
		return nil, err
	}
	defer j.readers.close()
	c := &Compacted{Dir: dir, Entries: j.Len(), Segments: len(j.segments), After: int64(len(segmentMagic))}
	for _, path := range j.segments {
		info, err := os.Stat(path)
		if dry && errors.Is(err, fs.ErrNotExist) {
			return nil, nil // another gc is at it
		}
		if err != nil {
			return nil, atomic.Explain("read", path, err)
		}
		c.Before += info.Size()
	}
	for no, r := range j.index.all() {
		if r.kind != Withdrawn {
			c.After += int64(r.size)
		}
		if r.epoch > 0 {
			c.After += int64(len(appendFrame(nil, j.withdrawal(j.index.id(no), r.ref))))
		}
	}
	if len(j.segments) == 0 || (len(j.segments) == 1 && c.After == c.Before && len(j.damage) == 0) {
		return nil, nil
	}
	if dry {
		return c, nil
	}
	if len(old) != len(j.segments) {
		return nil, nil // one was begun meanwhile: somebody is at work
	}
	if err := s.writeSegment(j); err != nil {
		return nil, err
	}
	if beforeRemove != nil {
		beforeRemove(dir)
	}
	for _, path := range j.segments {
		if err := s.files.Remove(path); err != nil {
			return nil, s.explain("remove", path, err)
		}
	}
	if err := s.files.SyncDir(dir); err != nil {
		return nil, s.explain("remove from", dir, err)
	}
	return c, s.rescue(dir, old)
}

// beforeRemove is for tests: what another process does in that moment.
var beforeRemove func(dir string)

// oldSegment is a segment that is open while it is removed.
type oldSegment struct {
	f    *os.File
	size int64 // before it was read
}

type oldSegments []oldSegment

func (o oldSegments) close() {
	for _, s := range o {
		s.f.Close()
	}
}

// openSegments opens the segments of a folder; busy says that one is appended to.
func openSegments(dir string, dry bool) (out oldSegments, busy bool, err error) {
	paths, err := segmentPaths(dir)
	if err != nil {
		return nil, false, err
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, false, atomic.Explain("read", path, err)
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return out, false, atomic.Explain("read", path, err)
		}
		out = append(out, oldSegment{f: f, size: info.Size()})
		if !dry && inUse(f) {
			return out, true, nil
		}
	}
	return out, false, nil
}

// rescue keeps what was appended to segments after they were read and before
// they were removed.
func (s *Store) rescue(dir string, old oldSegments) error {
	var entries []Entry
	for _, o := range old {
		info, err := o.f.Stat()
		if err != nil {
			return atomic.Explain("read", o.f.Name(), err)
		}
		if info.Size() <= o.size {
			continue
		}
		_, err = scanSegment(io.NewSectionReader(o.f, 0, info.Size()), o.f.Name(), func(e Entry, off int64, size int) {
			if off+int64(size) > o.size {
				e.Payload = slices.Clone(e.Payload)
				entries = append(entries, e)
			}
		})
		if err != nil {
			return atomic.Explain("read", o.f.Name(), err)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return s.putSegment(dir, func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	})
}

// writeSegment writes the entries of j that count as its newest segment.
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

// putSegment writes entries as the newest segment of a folder, whole or not at
// all.
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
