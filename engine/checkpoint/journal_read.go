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

// open opens the segments that have entries; the others are nil. Open files stay readable if gc merges the segments meanwhile. If gc has merged them
// before, open reads the journal again.
func (j *Journal) open() (files []*os.File, closeAll func(), err error) {
	closeAll = func() {
		for _, f := range files {
			f.Close() // of a nil file, this does nothing
		}
	}

	for range loadTries {
		j.mu.Lock()
		paths, read := slices.Clone(j.segments), slices.Clone(j.read)
		j.mu.Unlock()

		files, err = make([]*os.File, len(paths)), nil
		for n, path := range paths {
			if n >= len(read) || read[n] == 0 {
				continue // the file was removed if the disk was full
			}
			if files[n], err = os.Open(path); err != nil {
				err = fileutil.Explain("read", path, err)
				break
			}
		}

		if err == nil {
			return files, closeAll, nil
		}

		closeAll()
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, err
		}
		if loaded, failed := j.reload(); failed != nil || !loaded {
			return nil, nil, cmp.Or(failed, err)
		}
	}

	return nil, nil, err
}

// Read calls visit with the entries of ids and their indexes in ids. It reads each file once from its start, so the
// order of the calls is that of the files. Ids without a valid entry are left out. The payload is valid only during
// the call. Read stops after the first error, which is an ErrCorrupt if a file has changed since it was opened.
func (j *Journal) Read(ids []string, visit func(at int, e Entry) error) error {
	files, closeAll, err := j.open()
	if err != nil {
		return err
	}
	defer closeAll()

	type place struct {
		ref
		at int32
	}
	places := make([]place, 0, len(ids))
	j.mu.Lock()
	for at, id := range ids {
		if r, ok := j.entries[keyOf(id)]; ok && r.kind != Withdrawn && int(r.segment) < len(files) && files[r.segment] != nil {
			places = append(places, place{r, int32(at)})
		}
	}
	j.mu.Unlock()
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.off, b.off))
	})

	var w window
	for _, p := range places {
		f := files[p.segment]
		if w.r != f {
			w = window{r: f, path: f.Name(), mem: w.mem}
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
			return &CorruptError{Path: f.Name(),
				Detail: fmt.Sprintf("the entry at offset %d changed since the journal was opened", p.off)}
		}
		if err := visit(int(p.at), e); err != nil {
			return err
		}
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
	files, closeAll, err := j.open()
	if err != nil {
		return err
	}
	defer closeAll()

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
