package checkpoint

import (
	"errors"
	"fmt"

	"aicplan/sink/phrase"
)

// What errors.Is finds in the errors of this package.
var (
	// ErrMissing: no such object or stage record.
	ErrMissing = errors.New("missing")
	// ErrCorrupt: it is there, but its bytes are not those that were written.
	// Callers treat it like ErrMissing.
	ErrCorrupt = errors.New("corrupt")
	// ErrReadOnly: the store was opened with Options.ReadOnly.
	ErrReadOnly = errors.New("opened for reading only")
	// ErrLocked: another process holds the run lock; a *LockedError names it.
	ErrLocked = errors.New("locked")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the state folder was closed")
)

// FormatError reports a state folder of another format.
type FormatError struct {
	Dir   string
	Found string // the content of the file named format
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("state folder %s has format %q, this aicplan reads and writes format %d: choose another folder with -state-dir, or delete %s and measure again",
		e.Dir, phrase.Clip(e.Found, 20), Format, e.Dir)
}

// CorruptError says what is damaged.
type CorruptError struct {
	Path   string
	Detail string
	// MovedTo is where the damaged file was put aside; "" when it was left.
	MovedTo string
}

func (e *CorruptError) Error() string {
	msg := fmt.Sprintf("%s is corrupt: %s", e.Path, e.Detail)
	if e.MovedTo != "" {
		msg += "; put aside as " + e.MovedTo
	}
	return msg
}

// Unwrap lets errors.Is find ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
