package checkpoint

import (
	"errors"
	"fmt"
	"strconv"

	"aicplan/sink/base/textutil"
)

// Errors of this package, for errors.Is.
var (
	// ErrMissing means that the object or stage record does not exist.
	ErrMissing = errors.New("missing")
	// ErrCorrupt means that the stored bytes are not those that were written. Callers treat it like
	// ErrMissing.
	ErrCorrupt = errors.New("corrupt")
	// ErrReadOnly means that the store was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("opened for reading only")
	// ErrLocked means that another process has the run lock. A *LockedError identifies it.
	ErrLocked = errors.New("locked")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("the state folder was closed")
)

// FormatError reports a state folder of another format version, or whose file named format is lost or damaged.
type FormatError struct {
	Dir   string
	Found string // the content of the file named format, "" if it is lost
}

func (e *FormatError) Error() string {
	if _, err := strconv.Atoi(e.Found); err != nil {
		return fmt.Sprintf("the file named format in the state folder %s is missing or damaged and contains %q: write %d "+
			"into it, which keeps the measured cases, or choose another folder with --state-dir", e.Dir,
			textutil.Clip(e.Found, 20), Format)
	}
	return fmt.Sprintf(
		"state folder %s has format %q, this aicplan reads and writes format %d: choose another folder with --state-dir, "+
			"or delete %s and measure again",
		e.Dir,
		textutil.Clip(e.Found, 20),
		Format,
		e.Dir,
	)
}

// CorruptError reports a damaged file.
type CorruptError struct {
	Path   string
	Detail string
}

func (e *CorruptError) Error() string { return fmt.Sprintf("%s is corrupt: %s", e.Path, e.Detail) }

// Unwrap lets errors.Is find ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
