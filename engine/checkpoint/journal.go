package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
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
	Digest  string // of the context
	json    json.RawMessage
	dir     string
	also    []string // folders of other contexts that are read as well

	mu sync.Mutex
	index
	own     map[string]bool // segments that this process writes
	version int             // changes when Refresh finds entries
	next    *batch          // not yet taken by the writer
	started bool            // the writer goroutine runs
	closed  bool
	kick    chan struct{}
	done    chan struct{}
}

// index is what was read of the segments of a journal.
type index struct {
	segments []string // paths
	read     []int64  // bytes read of each segment
	sizes    []int64  // size of each segment when it was loaded
	entries  map[caseKey]ref
	counts   map[Kind]int
	epochs   []string // withdrawal tokens; the first is "", for cases that were never withdrawn
	damage   []Damage
}

// caseKey identifies a case id by two seeded hashes. An index of a million cases then has no pointers that the
// garbage collector must follow.
type caseKey [2]uint64

var caseSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func keyOf(id string) caseKey {
	return caseKey{maphash.String(caseSeeds[0], id), maphash.String(caseSeeds[1], id)}
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
		store: s, context: c, Digest: digest, json: canonical, dir: dir,
		next: &batch{}, own: map[string]bool{},
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
	for _, d := range j.damage {
		if !d.Tail {
			s.Warn(d.String() + "; the cases that were there count as not measured")
		}
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
		j.index = index{epochs: []string{""}, entries: map[caseKey]ref{}, counts: map[Kind]int{}}
		for _, dir := range append(slices.Clone(j.also), j.dir) {
			if err = j.loadSegments(dir); err != nil {
				break
			}
		}

		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}

	return err
}

// reload reads the journal again if gc has merged its segments since it was read. It returns false if this
// process appends to the journal, because gc leaves such a journal alone.
func (j *Journal) reload() (bool, error) {
	now := &Journal{store: j.store, dir: j.dir, also: j.also}
	if err := now.load(); err != nil {
		return false, err
	}

	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.own) > 0 {
		return false, nil
	}
	j.index = now.index
	return true, nil
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
		info, err := os.Stat(path) // before it is read: what is appended meanwhile makes it larger
		if err != nil {
			return fileutil.Explain("read", path, err)
		}

		n := int32(len(j.segments))
		j.segments, j.sizes = append(j.segments, path), append(j.sizes, info.Size())
		damage, err := j.readSegment(n, 0)
		if err != nil {
			return err
		}
		j.damage = append(j.damage, damage...)
	}

	return nil
}

// readSegment reads the entries of a segment after an offset into the index. It returns fs.ErrNotExist if the
// file does not exist.
func (j *Journal) readSegment(n int32, from int64) ([]Damage, error) {
	return readSegment(j.segments[n], from, func(e Entry, off int64, size int) error {
		j.readTo(n, off+int64(size))
		j.publish(e, ref{segment: n, off: off, size: int32(size), kind: e.Kind})
		return nil
	})
}

// readSegment scans a file after an offset. It returns fs.ErrNotExist if the file does not exist.
func readSegment(path string, from int64, visit func(e Entry, off int64, size int) error) ([]Damage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fileutil.Explain("read", path, err)
	}
	defer f.Close()
	return scanSegment(f, path, from, visit)
}

// publish adds an entry to the index. The caller has locked j.mu, or j is not shared yet.
func (j *Journal) publish(e Entry, r ref) {
	key := keyOf(e.ID)
	old, known := j.entries[key]
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
	j.entries[key] = r
}

// Len returns the number of cases.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) - j.counts[Withdrawn]
}

// Has returns the kind of a case, Measured or Failed, and whether the journal has it. It does not
// access files.
func (j *Journal) Has(id string) (Kind, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r, ok := j.entries[keyOf(id)]
	if !ok || r.kind == Withdrawn {
		return 0, false
	}

	return r.kind, true
}

// segmentPaths lists the segments in a folder, oldest first.
func segmentPaths(dir string) ([]string, error) {
	entries, err := readDir(dir)
	if err != nil {
		return nil, err
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
