package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"aicplan/sink/base/fileutil"
)

// Journal contains the measured and failed cases of one context. It is safe for concurrent use.
//
// An id may be appended more than once. The last entry is valid, except that a failure never replaces a
// measurement. Withdraw invalidates entries until the case is appended again. Acknowledged entries
// survive crashes of the process and of the machine.
type Journal struct {
	store   *Store
	context Context
	digest  string
	json    json.RawMessage
	dir     string
	also    []string // folders of other contexts that are read as well

	mu       sync.Mutex
	segments []string        // paths
	read     []int64         // bytes read of each segment
	own      map[string]bool // segments that this process writes
	entries  map[string]ref  // by case id
	order    []string        // in the order of their first entry
	counts   map[Kind]int
	epochs   []string // withdrawal tokens; the first is "", for cases that were never withdrawn
	damage   []Damage
	next     *batch // not yet taken by the writer
	started  bool   // the writer goroutine runs
	closed   bool
	kick     chan struct{}
	done     chan struct{}

	readers readers

	refreshing sync.Mutex
	found      []string // ids of entries that Refresh found
}

// ref is the location of an entry.
type ref struct {
	off     int64
	size    int32
	segment int32
	epoch   int32 // index in Journal.epochs
	kind    Kind
}

// batch is a group of entries that share one write and one fsync.
type batch struct {
	buf     []byte
	entries []pending
}

type pending struct {
	entry    Entry // without its payload, unless the index needs it
	off      int   // in buf
	size     int
	callback func(error)
}

// Journal opens the journal of a context. It reads and verifies all frames, and keeps the locations of
// the payloads in memory but not the payloads. Repeated calls return the same Journal. Nothing is
// created before the first Append. Store.Close closes the journal.
//
// Entries of the contexts in also are treated as if they had been appended first. Their journals are
// never written.
func (s *Store) Journal(c Context, also ...Context) (*Journal, error) {
	digest, canonical, err := Key(c)
	if err != nil {
		return nil, fmt.Errorf("journal of %s: %w", c.Op, err)
	}
	if c.Op == "" {
		panic("checkpoint: a journal context without an op")
	}

	dir := s.contextDir(c.Op, digest)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}

	if j := s.journals[dir]; j != nil {
		return j, nil
	}
	j := &Journal{
		store: s, context: c, digest: digest, json: canonical, dir: dir,
		counts: map[Kind]int{}, next: &batch{}, own: map[string]bool{},
		kick: make(chan struct{}, 1), done: make(chan struct{}),
	}

	for _, other := range also {
		digest, err := other.Digest()
		if err != nil {
			return nil, fmt.Errorf("journal of %s: %w", other.Op, err)
		}
		if from := s.contextDir(other.Op, digest); from != dir {
			j.also = append(j.also, from)
		}
	}

	if err := j.load(); err != nil {
		return nil, err
	}
	s.journals[dir] = j
	return j, nil
}

// loadTries limits the attempts of load if gc merges segments meanwhile.
const loadTries = 10

// load reads every segment. A torn tail is expected after a kill; other damage is reported. load starts
// over if gc merges segments meanwhile.
func (j *Journal) load() error {
	var err error
	for range loadTries {
		j.segments, j.read, j.damage, j.epochs = nil, nil, nil, []string{""}
		j.entries, j.order = map[string]ref{}, nil
		clear(j.counts)

		for _, dir := range append(slices.Clone(j.also), j.dir) {
			if err = j.loadSegments(dir); err != nil {
				break
			}
		}

		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return err
	}

	for _, d := range j.damage {
		if !d.Harmless() {
			j.store.warn(d.String() + "; the cases that were there count as not measured")
		}
	}

	return nil
}

// reload reads the journal again if gc has merged its segments since it was read. It returns false if this
// process appends to the journal, because gc leaves such a journal alone.
func (j *Journal) reload() (bool, error) {
	now := &Journal{store: j.store, dir: j.dir, also: j.also, counts: map[Kind]int{}}
	if err := now.load(); err != nil {
		return false, err
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.own) > 0 {
		return false, nil
	}
	j.segments, j.read, j.damage, j.epochs = now.segments, now.read, now.damage, now.epochs
	j.entries, j.order, j.counts = now.entries, now.order, now.counts
	j.readers.close()
	return true, nil
}

// again reports whether a read should be repeated because it failed on a segment that gc has merged.
func (j *Journal) again(err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	loaded, err := j.reload()
	return loaded && err == nil
}

func (j *Journal) loadSegments(dir string) error {
	paths, err := segmentPaths(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !j.store.reads(path) {
			continue
		}
		n := int32(len(j.segments))
		j.segments = append(j.segments, path)
		damage, err := readSegment(path, func(e Entry, off int64, size int) {
			j.readTo(n, off+int64(size))
			j.publish(e, ref{segment: n, off: off, size: int32(size), kind: e.Kind})
		})
		if err != nil {
			return err
		}

		j.damage = append(j.damage, damage...)
	}

	return nil
}

// readSegment scans a file. It returns fs.ErrNotExist if the file does not exist.
func readSegment(path string, visit func(e Entry, off int64, size int)) ([]Damage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileutil.Explain("read", path, err)
	}
	defer f.Close()
	damage, err := scanSegment(f, path, visit)
	if err != nil {
		return nil, fileutil.Explain("read", path, err)
	}

	return damage, nil
}

// publish adds an entry to the index. The caller has locked j.mu, or j is not shared yet.
func (j *Journal) publish(e Entry, r ref) {
	old, known := j.entries[e.ID]
	switch {
	case e.Kind == Withdrawn:
		r.epoch = j.epoch(string(e.Payload))
	case known && old.kind == Measured && r.kind != Measured:
		return
	default:
		r.epoch = old.epoch
	}

	if known {
		j.counts[old.kind]--
	}
	j.counts[r.kind]++
	if !known {
		j.order = append(j.order, e.ID)
	}

	j.entries[e.ID] = r
}

// Context returns the context that the journal was opened with.
func (j *Journal) Context() Context { return j.context }

// Digest returns the digest of the context.
func (j *Journal) Digest() string { return j.digest }

// Len returns the number of cases.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) - j.counts[Withdrawn]
}

// Count returns the number of cases of one kind.
func (j *Journal) Count(k Kind) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[k]
}

// Damage lists the damage found when the journal was opened.
func (j *Journal) Damage() []Damage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.damage)
}

// Has returns the kind of a case, Measured or Failed, and whether the journal has it. It does not
// access files.
func (j *Journal) Has(id string) (Kind, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.entries[id]
	if !ok || r.kind == Withdrawn {
		return 0, false
	}

	return r.kind, true
}

// Lookup returns the entry of a case. ok is false if the journal has no valid entry. The error is an
// ErrCorrupt if the file has changed since it was opened.
func (j *Journal) Lookup(id string) (e Entry, ok bool, err error) {
	for range loadTries {
		if e, ok, err = j.lookup(id); !j.again(err) {
			break
		}
	}
	return e, ok, err
}

func (j *Journal) lookup(id string) (e Entry, ok bool, err error) {
	j.mu.Lock()
	r, ok := j.entries[id]
	ok = ok && r.kind != Withdrawn
	var path string
	if ok {
		path = j.segments[r.segment]
	}

	j.mu.Unlock()
	if !ok {
		return Entry{}, false, nil
	}
	buf := make([]byte, r.size)
	if err := j.readers.readAt(path, buf, r.off); err != nil {
		return Entry{}, false, fileutil.Explain("read", path, err)
	}

	e, err = checkFrame(path, buf, r, id)
	return e, err == nil, err
}

// segmentPaths lists the segments in a folder, oldest first.
func segmentPaths(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileutil.Explain("read", dir, err)
	}

	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segmentSuffix) && !strings.HasPrefix(e.Name(), tempPrefix) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}

	// By name, numbers of nine digits sort before those of eight.
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(segmentNumber(a), segmentNumber(b)) })
	return out, nil
}
