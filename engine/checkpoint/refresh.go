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

	"aicplan/sink/atomic"
)

// reads says whether a segment is one of those that the store reads.
func (s *Store) reads(path string) bool {
	return s.label == "" || strings.HasSuffix(filepath.Base(path), "-"+s.label+segmentSuffix)
}

// readTo keeps how far a segment was read.
func (j *Journal) readTo(segment int32, end int64) {
	for len(j.read) <= int(segment) {
		j.read = append(j.read, 0)
	}
	j.read[segment] = max(j.read[segment], end)
}

// Refresh reads what other processes have appended since the journal was opened
// or refreshed last. It returns the ids of all entries that calls have found from
// a place on, in the order in which they were found, and the place behind them:
// several readers of a journal each have a place of their own, from 0. What is not
// yet written to its end waits for the next call.
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
			continue // merged into another one meanwhile, which is read as a new one
		}
		if err != nil {
			return ids, atomic.Explain("read", path, err)
		}
		j.mu.Lock()
		ids = j.takeIn(n, from, data, ids)
		j.mu.Unlock()
	}
	return ids, nil
}

// readFrom is what a file has behind an offset.
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

// takeIn publishes the whole frames in data, which begins at an offset of a
// segment. Damage between two of them is skipped; behind the last one it may be
// a frame that is being written.
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

// InOrder puts ids into the order in which their entries lie in the segments:
// whoever looks many up reads each file once, from its beginning. Ids without
// an entry are last.
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

// Segment is the name of the file that has the entry of a case, "" where none
// has. It holds the label of the store that wrote it.
func (j *Journal) Segment(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r, ok := j.entries[id]; ok {
		return filepath.Base(j.segments[r.segment])
	}
	return ""
}
