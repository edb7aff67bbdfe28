package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/atomic"
)

// GCOptions say what GC may remove.
type GCOptions struct {
	// DryRun reports what would go and removes nothing. It takes no lock, so that
	// it can be asked during a run; see GCReport.Active.
	DryRun bool
	// KeepRuns is how many of the newest run folders stay; 0 keeps all.
	KeepRuns int
	// Keep are digests of objects to keep though no stage record names them.
	Keep []string
}

// GCReport is what GC removed, or would.
type GCReport struct {
	Removed []Removed `json:"removed"`
	// Bytes is the space freed, journals included.
	Bytes int64 `json:"bytes"`
	// Kept counts objects that stage records name.
	Kept ObjectStats `json:"kept"`
	// Compacted are the journals that were rewritten without what no longer
	// counts: repeated cases, torn ends, damage.
	Compacted []Compacted `json:"compacted"`
	// Active is who was at work in the state folder during a dry run. What has
	// been written since that began is in none of the lists above.
	Active *Holder `json:"active,omitempty"`
}

// Removed is one file or run folder.
type Removed struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// Compacted is one journal.
type Compacted struct {
	Dir      string `json:"dir"`
	Entries  int    `json:"entries"`
	Segments int    `json:"segments"` // before; one after
	Before   int64  `json:"before"`
	After    int64  `json:"after"`
}

// GC removes objects that no stage record names, what crashes and damage left
// behind, and old run folders, and rewrites journals that hold more than what
// counts. It takes the run lock unless this store holds it already, so that
// nothing of a run in progress is touched. Journals that this store has open
// are left as they are.
func (s *Store) GC(ctx context.Context, opts GCOptions) (*GCReport, error) {
	if opts.DryRun {
		return s.dryGC(ctx, opts)
	}
	if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) && !s.readOnly {
		return &GCReport{}, nil
	}
	if !s.holds() {
		lock, err := s.Lock(LockInfo{Command: "aicplan ckpt gc"})
		if err != nil {
			return nil, err
		}
		defer lock.Release()
	}
	r := &GCReport{}
	drop, err := s.garbage(r, opts)
	if err != nil {
		return nil, err
	}
	for _, d := range drop {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if err := os.RemoveAll(d.Path); err != nil {
			return r, s.explain("remove", d.Path, err)
		}
		r.Removed = append(r.Removed, d)
		r.Bytes += d.Bytes
	}
	return r, s.compactAll(ctx, r, false)
}

// garbage lists what can go, by path. Objects are listed before the records
// are read: those of a run that goes on during a dry one are then named by its
// records.
func (s *Store) garbage(r *GCReport, opts GCOptions) ([]Removed, error) {
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
	for _, d := range opts.Keep {
		used[d] = true
	}
	paths, err := s.stagePaths()
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		rec, err := readStageFile(path)
		switch {
		case errors.Is(err, ErrCorrupt):
			drop = append(drop, removed(path, "a damaged stage record"))
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			return nil, err // its objects are unknown: nothing may go
		default:
			for _, d := range append(rec.Outputs.Digests(), rec.Outputs.Attached...) {
				used[d] = true
			}
		}
	}
	if slices.ContainsFunc(slices.Collect(maps.Keys(objects)), func(d string) bool { return !used[d] }) {
		if err := s.named(used); err != nil {
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
	if opts.KeepRuns > 0 && len(runs) > opts.KeepRuns {
		for _, run := range runs[:len(runs)-opts.KeepRuns] {
			drop = append(drop, removed(run.Dir, fmt.Sprintf("older than the last %d runs", opts.KeepRuns)))
		}
	}
	slices.SortFunc(drop, func(a, b Removed) int { return strings.Compare(a.Path, b.Path) })
	return drop, nil
}

// named adds the digests that entries of journals name: attachments of cases.
func (s *Store) named(used map[string]bool) error {
	dirs, err := filepath.Glob(filepath.Join(globEscape(s.path("journal")), "*", "*"))
	if err != nil {
		return fmt.Errorf("state folder %s: %w", s.dir, err)
	}
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // a file of somebody else
		}
		paths, err := segmentPaths(dir)
		if err != nil {
			return err
		}
		for _, path := range paths {
			_, err := readSegment(path, func(e Entry, _ int64, _ int) {
				for _, d := range digestsIn(e.Payload) {
					used[d] = true
				}
			})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// digestsIn finds the digests in a payload, whatever it means otherwise.
func digestsIn(payload []byte) []string {
	var out []string
	for {
		at := bytes.Index(payload, []byte(digestPrefix))
		if at < 0 {
			return out
		}
		payload = payload[at:]
		const size = len(digestPrefix) + 64
		if len(payload) >= size && isDigestName(string(payload[len(digestPrefix):size])) {
			out = append(out, string(payload[:size]))
		}
		payload = payload[len(digestPrefix):]
	}
}

// hostPatience is how long the file of a worker host takes to be written.
const hostPatience = time.Minute

func changedBefore(d fs.DirEntry, patience time.Duration) bool {
	info, err := d.Info()
	return err == nil && time.Since(info.ModTime()) > patience
}

// strays lists temporary files and objects that were put aside.
func (s *Store) strays() ([]Removed, error) {
	var out []Removed
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return atomic.Explain("read", path, err)
		case d.IsDir() && (strings.HasPrefix(d.Name(), tempPrefix) || filepath.Dir(path) == s.path("objects", "corrupt")):
			out = append(out, removed(path, "put aside: a folder where a file of ours belongs"))
			return fs.SkipDir
		case d.IsDir():
			if path == s.path("runs") {
				return fs.SkipDir // the folders of runs are theirs
			}
			return nil
		case strings.HasPrefix(d.Name(), tempPrefix):
			out = append(out, removed(path, "left by a write that did not finish"))
		case filepath.Dir(path) == s.path("hosts") && strings.HasSuffix(d.Name(), ".tmp") && changedBefore(d, hostPatience):
			out = append(out, removed(path, "left by a start of a worker that did not finish"))
		case filepath.Dir(path) == s.path("objects", "corrupt"):
			out = append(out, removed(path, "a damaged object that was put aside"))
		}
		return nil
	})
	return out, err
}

// removed describes a file or folder with its size.
func removed(path, why string) Removed {
	r := Removed{Path: path, Why: why}
	// A file that cannot be measured counts as empty; removing it will say why.
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
