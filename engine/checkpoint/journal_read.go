package checkpoint

import (
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sync"

	"aicplan/sink/base/fileutil"
)

// Reader looks up many entries. It reads ahead, so lookups in the order of the entries are fastest, and
// it may return entries that were removed or damaged meanwhile. A Reader is not safe for concurrent
// use.
type Reader struct {
	j    *Journal
	path string
	off  int64
	win  []byte
}

// Reader returns a new Reader of j.
func (j *Journal) Reader() *Reader { return &Reader{j: j} }

// Lookup is like Journal.Lookup. The payload is valid until the next call.
func (r *Reader) Lookup(id string) (e Entry, ok bool, err error) {
	for range loadTries {
		if e, ok, err = r.lookup(id); !r.j.again(err) {
			break
		}
	}
	return e, ok, err
}

func (r *Reader) lookup(id string) (e Entry, ok bool, err error) {
	j := r.j
	j.mu.Lock()
	at, ok := j.entries[id]
	ok = ok && at.kind != Withdrawn
	var path string
	if ok {
		path = j.segments[at.segment]
	}

	j.mu.Unlock()
	if !ok {
		return Entry{}, false, nil
	}
	from := at.off - r.off
	if path != r.path || from < 0 || from+int64(at.size) > int64(len(r.win)) {
		const ahead = 256 << 10
		if size := max(ahead, int(at.size)); cap(r.win) < size {
			r.win = make([]byte, size)
		}
		n, err := j.readers.readSome(path, r.win[:cap(r.win)], at.off)
		if err != nil {
			return Entry{}, false, fileutil.Explain("read", path, err)
		}

		r.path, r.off, r.win, from = path, at.off, r.win[:n], 0
	}

	e, err = checkFrame(path, r.win[from:min(from+int64(at.size), int64(len(r.win)))], at, id)
	return e, err == nil, err
}

func checkFrame(path string, frame []byte, r ref, id string) (Entry, error) {
	e, _, ok := parseFrame(frame)
	if !ok || e.ID != id {
		return Entry{}, &CorruptError{Path: path,
			Detail: fmt.Sprintf("the entry at offset %d changed since the journal was opened", r.off)}
	}
	return e, nil
}

// All yields the valid entries as of the call, in the order in which they were appended. It stops after
// the first error.
func (j *Journal) All() iter.Seq2[Entry, error] { return j.Some(-1) }

// Some is like All, but limited to the first n entries. A negative n means all.
func (j *Journal) Some(n int) iter.Seq2[Entry, error] {
	j.mu.Lock()
	var ids []string
	for _, id := range j.order {
		if n >= 0 && len(ids) == n {
			break
		}
		if j.entries[id].kind != Withdrawn {
			ids = append(ids, id)
		}
	}
	j.mu.Unlock()

	sorted := make([]string, len(ids))
	for i, at := range j.InOrder(ids) {
		sorted[i] = ids[at]
	}

	return func(yield func(Entry, error) bool) {
		r := j.Reader()
		for _, id := range sorted {
			e, ok, err := r.Lookup(id)
			if !ok && err == nil {
				continue // it was withdrawn meanwhile
			}
			e.Payload = slices.Clone(e.Payload)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// readers caches open files of segments.
type readers struct {
	mu    sync.Mutex
	files map[string]*os.File
}

const maxReaders = 32

// readSome reads up to len(buf) bytes at an offset. It reads fewer at the end of the file.
func (r *readers) readSome(path string, buf []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.files[path]
	if f == nil {
		var err error
		if f, err = os.Open(path); err != nil {
			return 0, err
		}
		if len(r.files) >= maxReaders {
			r.closeAll()
		}

		if r.files == nil {
			r.files = map[string]*os.File{}
		}
		r.files[path] = f
	}

	n, err := f.ReadAt(buf, off)
	if err == io.EOF {
		err = nil
	}

	return n, err
}

func (r *readers) readAt(path string, buf []byte, off int64) error {
	n, err := r.readSome(path, buf, off)
	if err == nil && n < len(buf) {
		clear(buf[n:]) // the checksum will not match
	}
	return err
}

func (r *readers) closeAll() {
	for _, f := range r.files {
		f.Close()
	}
	clear(r.files)
}

func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closeAll()
}
