package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
)

// EachEntry visits every entry that the journal of a context holds, in the order
// in which they were appended: also those that a later one has replaced, and those
// that were withdrawn. The payload is valid during the call. A segment that gc removes
// meanwhile is an error: what it had would be missing without a word.
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
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; if ckpt gc tidied the journals meanwhile, ask again", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
