package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"

	"aicplan/sink/base/fileutil"
)

// retry calls read again, after it has read the journal again, if read fails because gc has merged a segment that it
// wanted to open.
func (j *Journal) retry(read func() error) (err error) {
	for range loadTries {
		if err = read(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if loaded, failed := j.reload(); failed != nil || !loaded {
			return cmp.Or(failed, err)
		}
	}

	return err
}

// Read calls visit with the entries of ids and their indexes in ids. It reads each file once from its start, so the
// order of the calls is that of the files. Ids without a valid entry are left out. The payload is valid only during
// the call. Read stops after the first error, which is an ErrCorrupt if a file has changed since it was opened.
func (j *Journal) Read(ids []string, visit func(at int, e Entry) error) error {
	done := make([]bool, len(ids))
	return j.retry(func() error { return j.readOnce(ids, done, visit) })
}

// readOnce reads the entries that are not done yet.
func (j *Journal) readOnce(ids []string, done []bool, visit func(at int, e Entry) error) error {
	type place struct {
		ref
		at int32
	}
	places := make([]place, 0, len(ids))
	j.mu.Lock()
	for at, id := range ids {
		if r, ok := j.entries[keyOf(id)]; ok && r.kind != Withdrawn && !done[at] {
			places = append(places, place{r, int32(at)})
		}
	}
	paths := slices.Clone(j.segments)
	j.mu.Unlock()
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.off, b.off))
	})

	var w window
	var f *os.File
	defer func() { f.Close() }() // of a nil file, this does nothing
	for i, p := range places {
		path := paths[p.segment]
		if i == 0 || p.segment != places[i-1].segment {
			f.Close()
			var err error
			if f, err = os.Open(path); err != nil {
				return fileutil.Explain("read", path, err)
			}
			w = window{r: f, path: path, mem: w.mem}
		}

		if err := w.seek(p.off); err != nil {
			return err
		}
		frame, err := w.peek(int(p.size))
		if err != nil {
			return err
		}

		e, _, ok := parseFrame(frame)
		if !ok || e.ID != ids[p.at] {
			return &CorruptError{Path: path,
				Detail: fmt.Sprintf("the entry at offset %d changed since the journal was opened", p.off)}
		}
		if err := visit(int(p.at), e); err != nil {
			return err
		}
		done[p.at] = true
	}

	return nil
}

// Lookup returns the entry of a case. ok is false if the journal has no valid entry. The error is an
// ErrCorrupt if the file has changed since it was opened.
func (j *Journal) Lookup(id string) (e Entry, ok bool, err error) {
	err = j.Read([]string{id}, func(_ int, found Entry) error {
		found.Payload = bytes.Clone(found.Payload)
		e, ok = found, true
		return nil
	})
	return e, ok && err == nil, err
}

// errStop ends a scan whose caller needs no more entries.
var errStop = errors.New("stop")

// All yields the valid entries in the order in which they were appended. The payload is valid until the next one.
// It stops after the first error.
func (j *Journal) All() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := j.scan(func(e Entry) error {
			if e.Kind != Withdrawn && !yield(e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(Entry{}, err)
		}
	}
}

// scan calls visit for the valid entries and for the withdrawals that Epoch returns, in the order in which they
// were appended.
func (j *Journal) scan(visit func(Entry) error) error {
	// What is open can be read to its end, although gc may merge it meanwhile.
	var files []*os.File
	err := j.retry(func() (err error) {
		files, err = j.open()
		return err
	})
	if err != nil {
		return err
	}
	defer closeAll(files)

	for n, f := range files {
		if f == nil {
			continue
		}
		_, err := scanSegment(f, f.Name(), 0, func(e Entry, off int64, _ int) error {
			j.mu.Lock()
			r := j.entries[keyOf(e.ID)]
			valid := r.kind == e.Kind && int(r.segment) == n && r.off == off
			if e.Kind == Withdrawn {
				valid = r.epoch > 0 && j.epochs[r.epoch] == string(e.Payload)
			}
			j.mu.Unlock()
			if !valid {
				return nil
			}
			return visit(e)
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// open opens the segments. Those without an entry are nil: they were removed if the disk was full.
func (j *Journal) open() ([]*os.File, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	files := make([]*os.File, len(j.segments))

	for n, path := range j.segments {
		if n >= len(j.read) || j.read[n] == 0 {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			closeAll(files)
			return nil, fileutil.Explain("read", path, err)
		}
		files[n] = f
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() // of a nil file, this does nothing
	}
}
