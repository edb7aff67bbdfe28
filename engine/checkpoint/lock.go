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

	"aicplan/sink/base/fileutil"
)

// Holder identifies the process that has the run lock.
type Holder = fileutil.Holder

// LockInfo describes the caller of Lock in the lock file.
type LockInfo struct {
	Command string // "aicplan apply plans/quickstart.hcl"
	RunID   string
}

// LockedError reports that another process has the lock.
type LockedError struct {
	Dir string
	// Holder is nil if it could not be read.
	Holder *Holder
	// Elsewhere is true if the holder ran on another machine, or on this machine before its last boot.
	// Whether such a holder is alive cannot be checked from here.
	Elsewhere bool
}

func (e *LockedError) Error() string {
	if e.Holder == nil {
		return fmt.Sprintf("state folder %s is in use by another aicplan: wait for it, or choose another folder with --state-dir", e.Dir)
	}
	msg := fmt.Sprintf("state folder %s is in use by %s", e.Dir, e.Holder)
	if e.Elsewhere {
		return fmt.Sprintf("%s, which cannot be checked from this machine: wait for it; if it has ended, remove %s",
			msg, filepath.Join(e.Dir, "lock.json"))
	}

	return msg + ": wait for it, or end it"
}

// Unwrap lets errors.Is find ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// RunLock is an acquired run lock.
type RunLock struct {
	store *Store
	flock *flock.Flock // nil if the file system does not support locks
}

// Lock takes the run lock. It fails with a *LockedError after one second of retries.
//
// Lock replaces the lock file of a process that died under the running kernel. It never replaces that
// of another kernel, because locks of some network file systems do not reach other machines and two
// machines may share a hostname. The error then names the file to remove.
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

// Lock retries for a second: the kernel releases the lock of a killed process only after it has freed
// the memory of the process, and Abandoned takes the lock for a moment.
const (
	lockTries = 100
	lockPause = 10 * time.Millisecond
)

// Release releases the lock. It does nothing if the lock was already released.
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

// Locked returns the process named in the lock file, alive or not. It returns nil if there is no lock
// file. It changes nothing.
func (s *Store) Locked() (*Holder, error) { return s.readHolder() }

// Abandoned reports whether a run ended without recording its end. The run is identified by its host
// and process id. It is abandoned if the process is gone and its lock file remains, or if it released
// the lock on a full disk. Abandoned returns false if the state cannot be determined, for example for
// another machine or a file system without locks.
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
		return h.Host == host // another process has taken the lock since
	case h.Running():
		return false
	}

	// The holder may run under another pid in another container, so check the lock itself.
	fl := flock.New(s.path("lock"), flock.SetFlag(os.O_RDONLY))
	free, err := fl.TryRLock()
	return err == nil && free && fl.Close() == nil
}

// tryLock takes the file lock and reads the lock file. The returned lock is nil if the file system does
// not support locks; only the lock file counts then.
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
			holder = nil // a stale lock file that the new holder has not replaced yet
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
		return nil, fileutil.Explain("read", s.path("lock.json"), err)
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

func self(info LockInfo, now time.Time) Holder { return fileutil.Self(info.Command, info.RunID, now) }

// state reports whether the process that wrote a lock file is alive, or cannot be checked from here.
// Under the same kernel, acquiring the file lock proves that the process is dead; without a file lock
// its pid decides. A different kernel means another machine or an earlier boot of this one, which
// cannot be distinguished.
func state(h *Holder, haveFileLock bool) (alive, elsewhere bool) {
	switch {
	case !h.SameKernel():
		return false, true
	case haveFileLock:
		return false, false
	}

	return h.Running(), false
}
