package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/sink/base/fileutil"
)

// reads reports whether the store reads a segment; see Options.Label.
func (s *Store) reads(path string) bool {
	return s.Label == "" || strings.HasSuffix(filepath.Base(path), "-"+s.Label+segmentSuffix)
}

// readTo records that a segment was read up to end.
func (j *Journal) readTo(segment int32, end int64) {
	for len(j.read) <= int(segment) {
		j.read = append(j.read, 0)
	}
	j.read[segment] = max(j.read[segment], end)
}

// Refresh reads the entries that other processes have appended since the journal was opened or last
// refreshed. The version that it returns changes if there are any. An incomplete frame is read by a later call.
func (j *Journal) Refresh() (version int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	paths, err := segmentPaths(j.dir)
	if err != nil {
		return j.version, err
	}

	for _, path := range paths {
		if j.own[path] || !j.store.reads(path) {
			continue
		}

		n := slices.Index(j.segments, path)
		if n < 0 {
			n = len(j.segments)
			j.segments = append(j.segments, path)
		}
		j.readTo(int32(n), 0)
		before := j.read[n]
		info, err := os.Stat(path)
		if err == nil && info.Size() > before {
			_, err = j.readSegment(int32(n), before) // a later call reads damage again
		}
		if j.read[n] > before {
			j.version++
		}
		// gc may have merged the file into a segment that is read as a new one.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return j.version, fileutil.Explain("read", path, err)
		}
	}

	return j.version, nil
}

// Stale reports whether another process has added, extended or removed segments since a journal was loaded.
func (s *Store) Stale() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.journals {
		var now []string
		for _, dir := range append(slices.Clone(j.also), j.dir) {
			paths, err := segmentPaths(dir)
			if err != nil {
				return true
			}
			now = append(now, paths...)
		}

		now = slices.DeleteFunc(now, func(path string) bool { return !s.reads(path) })
		j.mu.Lock()
		same := slices.Equal(now, j.segments) && !j.grown()
		j.mu.Unlock()
		if !same {
			return true
		}
	}
	return false
}

// grown reports whether a segment of another process is larger than when it was loaded. The caller has locked j.mu.
func (j *Journal) grown() bool {
	for n, size := range j.sizes {
		if j.own[j.segments[n]] {
			continue
		}
		if info, err := os.Stat(j.segments[n]); err != nil || info.Size() != size {
			return true
		}
	}
	return false
}

// Segment returns the name of the file with the entry of a case, or "" if the journal does not have it.
// The name contains the label of the store that wrote it.
func (j *Journal) Segment(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r, ok := j.entries[keyOf(id)]; ok {
		return filepath.Base(j.segments[r.segment])
	}
	return ""
}
