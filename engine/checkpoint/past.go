package checkpoint

import (
	"errors"
	"io/fs"
)

// EachEntry visits every entry that the journal of a context holds, in the order
// in which they were appended: also those that a later one has replaced, and those
// that were withdrawn. The payload is valid during the call.
func (s *Store) EachEntry(info ContextInfo, visit func(Entry)) error {
	paths, err := segmentPaths(info.Dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		_, err := s.readValid(path, func(e Entry, _ int64, _ int) {
			if e.Kind != Withdrawn {
				visit(e)
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			return err
		}
	}
	return nil
}
