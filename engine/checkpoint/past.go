package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"

	"aicplan/sink/base/fileutil"
)

// Place is the location of an entry in a segment. Callers can store it instead of the entry.
type Place struct {
	path string
	off  int64
	size int32
}

// EachEntry calls visit for every measured and failed entry of a journal, in the order in which they
// were appended, including entries that were superseded or withdrawn. The payload is valid only during
// the call. EachEntry fails if gc removes a segment meanwhile, because its entries would be missing
// silently.
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

// EntryAt reads the entry at a place returned by EachEntry.
func (s *Store) EntryAt(p Place) (Entry, error) {
	buf := make([]byte, p.size)
	if err := s.readers.readAt(p.path, buf, p.off); err != nil {
		return Entry{}, tidied(fileutil.Explain("read", p.path, err))
	}
	e, _, ok := parseFrame(buf)
	if !ok {
		return Entry{}, &CorruptError{Path: p.path,
			Detail: fmt.Sprintf("the entry at offset %d changed while the journal was read", p.off)}
	}

	return e, nil
}

// tidied adds a hint to the error of a missing segment.
func tidied(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; if ckpt gc tidied the journals meanwhile, ask again", err)
	}
	return err
}
