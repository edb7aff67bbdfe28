package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"aicplan/sink/atomic"
	"aicplan/sink/filelock"
)

// Holder is who holds the run lock.
type Holder = filelock.Holder

// LockInfo is what a caller says about itself.
type LockInfo struct {
	Command string // "aicplan apply plans/quickstart.hcl"
	RunID   string
}

// LockedError names who holds the lock.
type LockedError struct {
	Dir string
	// Holder is nil when it could not be read.
	Holder *Holder
	// Elsewhere is true when the holder ran on another machine, or on this one
	// before its last start, so that whether it is alive cannot be seen from here.
	Elsewhere bool
}

func (e *LockedError) Error() string {
	if e.Holder == nil {
		return fmt.Sprintf("state folder %s is in use by another aicplan: wait for it, or choose another folder with -state-dir", e.Dir)
	}
	msg := fmt.Sprintf("state folder %s is in use by %s", e.Dir, e.Holder)
	if e.Elsewhere {
		return fmt.Sprintf("%s, which cannot be checked from this machine: wait for it; if it has ended, remove %s", msg, filepath.Join(e.Dir, "lock.json"))
	}
	return msg + ": wait for it, or end it"
}

// Unwrap lets errors.Is find ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// RunLock is the lock while it is held.
type RunLock struct {
	store *Store
	flock *flock.Flock // nil where the file system has no locks
}

// Lock takes the run lock, or fails with a *LockedError after a second of retries. A mark left by a
// process that died under the running kernel is taken over; every other is not,
// since the lock of some network file systems does not reach beyond the machine
// and machines may have one name: the error names the file to remove.
func (s *Store) Lock(info LockInfo) (*RunLock, error) {
	if err := s.ensure(); err != nil {
		return nil, err
	}
	fl, holder, err := s.tryLock()
	for range lockTries {
		if !errors.Is(err, ErrLocked) {
			break
		}
		s.pause()
		fl, holder, err = s.tryLock()
	}
	if err != nil {
		return nil, err
	}
	if holder != nil {
		if alive, elsewhere := state(holder, fl != nil); alive || elsewhere {
			release(fl)
			return nil, &LockedError{Dir: s.dir, Holder: holder, Elsewhere: elsewhere}
		}
	}
	if err := s.writeHolder(self(info, s.now())); err != nil {
		release(fl)
		return nil, err
	}
	l := &RunLock{store: s, flock: fl}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = l
	return l, nil
}

// Lock retries for a second: a killed process keeps its lock until the kernel has freed
// its memory, and Abandoned takes the lock for a moment.
const (
	lockTries = 100
	lockPause = 10 * time.Millisecond
)

// Release gives the lock back. Releasing twice is fine.
func (l *RunLock) Release() error {
	s := l.store
	s.mu.Lock()
	if s.held != l {
		s.mu.Unlock()
		return nil
	}
	s.held = nil
	s.mu.Unlock()
	err := s.files.Remove(s.path("lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		err = s.explain("remove", s.path("lock.json"), err)
	}
	return errors.Join(err, release(l.flock))
}

// Locked returns who holds the lock or left its mark; nil when nobody did. It
// changes nothing.
func (s *Store) Locked() (*Holder, error) { return s.readHolder() }

// Abandoned says whether a run has ended though its events do not tell it, by the host
// and the process that it names: the process is gone and left its lock, or has given
// it back on a disk that had no room for the end. It is false of what cannot be
// known: another machine, or a file system without locks.
func (s *Store) Abandoned(host string, pid int) bool {
	h, err := s.readHolder()
	switch {
	case err != nil:
		return false
	case h == nil:
		if here, err := os.Hostname(); err != nil || host != here {
			return false
		}
	case !h.SameKernel():
		return false
	case h.PID != pid:
		return h.Host == host // somebody else has the lock by now
	case h.Running():
		return false
	}
	// In another container it may live under another pid: the lock tells.
	fl := flock.New(s.path("lock"), flock.SetFlag(os.O_RDONLY))
	free, err := fl.TryRLock()
	return err == nil && free && fl.Close() == nil
}

// tryLock takes the file lock and reads the mark. The lock is nil where the
// file system does not support locks: then the mark alone counts.
func (s *Store) tryLock() (*flock.Flock, *Holder, error) {
	fl := flock.New(s.path("lock"))
	ok, err := fl.TryLock()
	switch {
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, errors.ErrUnsupported):
		fl = nil
	case err != nil:
		return nil, nil, s.explain("lock", s.path("lock"), err)
	case !ok:
		holder, err := s.readHolder()
		if err != nil || (holder != nil && holder.SameKernel() && !holder.Running()) {
			holder = nil // an old mark that the living holder has not replaced yet
		}
		return nil, nil, &LockedError{Dir: s.dir, Holder: holder}
	}
	holder, err := s.readHolder()
	if errors.Is(err, ErrCorrupt) {
		holder, err = nil, nil
	}
	if err != nil {
		release(fl)
		return nil, nil, err
	}
	return fl, holder, nil
}

func release(fl *flock.Flock) error {
	if fl == nil {
		return nil
	}
	return fl.Close()
}

func (s *Store) readHolder() (*Holder, error) {
	data, err := os.ReadFile(s.path("lock.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, atomic.Explain("read", s.path("lock.json"), err)
	}
	var h Holder
	if err := json.Unmarshal(data, &h); err != nil {
		return nil, &CorruptError{Path: s.path("lock.json"), Detail: err.Error()}
	}
	return &h, nil
}

func (s *Store) writeHolder(h Holder) error {
	data, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return s.writeFile(s.path("lock.json"), append(data, '\n'))
}

func self(info LockInfo, now time.Time) Holder { return filelock.Self(info.Command, info.RunID, now) }

// state judges the mark of a holder. Under the kernel that made it, a file lock
// in our hands says that its holder is dead, and without one its pid tells.
// Another kernel is another machine, one that is called like this one, or this
// one before its last start: nothing here can tell these apart.
func state(h *Holder, haveFileLock bool) (alive, elsewhere bool) {
	switch {
	case !h.SameKernel():
		return false, true
	case haveFileLock:
		return false, false
	}
	return h.Running(), false
}
