package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"

	"aicplan/sink/atomic"
)

// Place is where an entry lies: readers of many may keep it instead of the entry.
type Place struct {
	path string
	off  int64
	size int32
}

// EachEntry visits every entry that the journal of a context holds, in the order
// in which they were appended: also those that a later one has replaced, and those
// that were withdrawn. The payload is valid during the call. A segment that gc removes
// meanwhile is an error: what it had would be missing without a word.
func (s *Store) EachEntry(info ContextInfo, visit func(Entry, Place)) error {
	paths, err := segmentPaths(info.Dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		_, err := readSegment(path, func(e Entry, off int64, size int) {
			if e.Kind != Withdrawn {
				visit(e, Place{path, off, int32(size)})
			}
		})
		if err != nil {
			return tidied(err)
		}
	}
	return nil
}

// EntryAt reads the entry at a place that EachEntry has named.
func (s *Store) EntryAt(p Place) (Entry, error) {
	buf := make([]byte, p.size)
	if err := s.readers.readAt(p.path, buf, p.off); err != nil {
		return Entry{}, tidied(atomic.Explain("read", p.path, err))
	}
	e, _, ok := parseFrame(buf)
	if !ok {
		return Entry{}, &CorruptError{Path: p.path, Detail: fmt.Sprintf("the entry at offset %d changed while the journal was read", p.off)}
	}
	return e, nil
}

// tidied says what may have become of a segment.
func tidied(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; if ckpt gc tidied the journals meanwhile, ask again", err)
	}
	return err
}
