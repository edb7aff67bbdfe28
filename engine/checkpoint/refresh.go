package checkpoint

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
)

// reads reports whether the store reads a segment; see Options.Label.
func (s *Store) reads(path string) bool {
	return s.label == "" || strings.HasSuffix(filepath.Base(path), "-"+s.label+segmentSuffix)
}

// readTo records that a segment was read up to end.
func (j *Journal) readTo(segment int32, end int64) {
	for len(j.read) <= int(segment) {
		j.read = append(j.read, 0)
	}
	j.read[segment] = max(j.read[segment], end)
}

// Refresh reads the entries that other processes have appended since the journal was opened or last
// refreshed. It returns the ids of all entries that any call has found, starting at position from, and
// the position to pass to the next call. Each reader starts at 0 and keeps its own position. An
// incomplete frame is read by a later call.
func (j *Journal) Refresh(from int) ([]string, int, error) {
	j.refreshing.Lock()
	defer j.refreshing.Unlock()
	ids, err := j.refresh()
	j.found = append(j.found, ids...)
	from = min(from, len(j.found))
	return slices.Clone(j.found[from:]), len(j.found), err
}

func (j *Journal) refresh() ([]string, error) {
	paths, err := segmentPaths(j.dir)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	known := make(map[string]int32, len(j.segments))

	for n, path := range j.segments {
		known[path] = int32(n)
	}

	own := make(map[string]bool, len(j.own))
	for path := range j.own {
		own[path] = true
	}

	j.mu.Unlock()
	var ids []string
	for _, path := range paths {
		if own[path] || !j.store.reads(path) {
			continue
		}
		j.mu.Lock()
		n, ok := known[path]
		if !ok {
			n = int32(len(j.segments))
			j.segments = append(j.segments, path)
		}

		j.readTo(n, 0)
		from := j.read[n]
		j.mu.Unlock()
		data, err := readFrom(path, from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gc has merged it into a segment that is read as a new one
		}

		if err != nil {
			return ids, fileutil.Explain("read", path, err)
		}
		j.mu.Lock()
		ids = j.takeIn(n, from, data, ids)
		j.mu.Unlock()
	}

	return ids, nil
}

// readFrom returns the content of a file after an offset.
func readFrom(path string, from int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= from {
		return nil, err
	}

	data := make([]byte, info.Size()-from)
	n, err := f.ReadAt(data, from)
	if errors.Is(err, io.EOF) {
		err = nil
	}

	return data[:n], err
}

// takeIn publishes the complete frames in data, which starts at offset from of a segment. It skips
// damage between frames. Bytes after the last frame may be an incomplete write and are read again
// later.
func (j *Journal) takeIn(segment int32, from int64, data []byte, ids []string) []string {
	at := 0
	if from == 0 && bytes.HasPrefix(data, []byte(segmentMagic)) {
		at = len(segmentMagic)
	}
	for at < len(data) {
		if frameSize(data[at:]) > 0 {
			if e, size, ok := parseFrame(data[at:]); ok {
				j.publish(e, ref{segment: segment, off: from + int64(at), size: int32(size), kind: e.Kind})
				ids = append(ids, e.ID)
				at += size
				j.readTo(segment, from+int64(at))
				continue
			}
		}

		next := bytes.Index(data[at+1:], []byte(frameSync))
		if next < 0 {
			break
		}
		at += 1 + next
	}

	return ids
}

// InOrder returns the indexes of ids, sorted by the location of their entries, so that a caller who
// looks up many of them reads each file once from its start. Ids without an entry are last.
func (j *Journal) InOrder(ids []string) []int {
	type place struct {
		segment int32
		off     int64
		at      int
	}

	places := make([]place, len(ids))
	j.mu.Lock()
	for i, id := range ids {
		r, ok := j.entries[id]
		if !ok {
			r.segment = int32(len(j.segments))
		}
		places[i] = place{r.segment, r.off, i}
	}

	j.mu.Unlock()
	slices.SortFunc(places, func(a, b place) int {
		if a.segment != b.segment {
			return int(a.segment) - int(b.segment)
		}
		switch {
		case a.off < b.off:
			return -1
		case a.off > b.off:
			return 1
		}

		return a.at - b.at
	})

	out := make([]int, len(places))
	for i, p := range places {
		out[i] = p.at
	}

	return out
}

// Segment returns the name of the file with the entry of a case, or "" if the journal does not have it.
// The name contains the label of the store that wrote it.
func (j *Journal) Segment(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r, ok := j.entries[id]; ok {
		return filepath.Base(j.segments[r.segment])
	}
	return ""
}
