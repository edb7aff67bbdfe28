package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"time"

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
	// Follows is true if the holder does not have the run lock, but a claim while it follows jobs.
	Follows bool
	// Shared is the stage or the file that both use, or "" if they share only the folder.
	Shared string
	// Journal is the segment that a process without the lock appends to, or "".
	Journal string
	// Alive is false if the process of a claim is known to have ended. Other errors do not set it.
	Alive bool

	file string // names the holder
}

func (e *LockedError) Error() string {
	if e.Journal != "" {
		return fmt.Sprintf("state folder %s is in use by jobs, which append to %s: wait for them, or end them with "+
			"aicplan cancel", e.Dir, e.Journal)
	}
	if e.Holder == nil {
		return fmt.Sprintf(
			"state folder %s is in use by another aicplan: wait for it, or choose another folder with --state-dir",
			e.Dir,
		)
	}

	msg := fmt.Sprintf("state folder %s is in use by %s", e.Dir, e.Holder)
	if e.Shared != "" {
		msg = fmt.Sprintf("%s is in use by %s", e.Shared, e.Holder)
	}
	if e.Follows {
		msg += ", which follows jobs"
	}

	switch {
	case e.Elsewhere:
		return fmt.Sprintf(
			"%s, which cannot be checked from this machine: wait for it; if it has ended, remove %s",
			msg,
			e.file,
		)
	case e.Follows:
		return msg + ": wait for it, or press Ctrl-C in it: the jobs continue, and the same command follows them"
	}
	return msg + ": wait for it, or end it"
}

// Unwrap lets errors.Is find ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }

// RunLock is an acquired run lock.
type RunLock struct {
	store *Store
	me    Holder
	file  *fileutil.FileLock
	// claim is the locked file claimed, which names what the run uses; nil before the first Suspend.
	claim   *fileutil.FileLock
	claimed string
}

// Lock takes the run lock. It fails with a *LockedError after one second of retries.
//
// Lock replaces the lock of a process that died under the running kernel. It never replaces that of
// another kernel, because locks of some network file systems do not reach other machines and two
// machines may share a hostname. The error then names the file to remove.
func (s *Store) Lock(info LockInfo) (*RunLock, error) {
	if err := s.ensure(); err != nil {
		return nil, err
	}
	l := &RunLock{store: s, me: fileutil.Self(info.Command, info.RunID, s.Now())}
	return l, l.take()
}

// take takes the lock; see Store.Lock.
func (l *RunLock) take() error {
	s := l.store
	for try := 0; ; try++ {
		file, err := fileutil.LockFile(s.path("lock"), "state folder "+s.Dir, l.me, s.replace)
		busy, isBusy := errors.AsType[*fileutil.BusyError](err)
		switch {
		case err == nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.held, l.file = l, file
			return nil
		case !isBusy:
			return err
		case try < lockTries:
			s.pause()
			continue
		}

		holder := busy.Holder
		if holder != nil && holder.SameKernel() && !holder.Running() {
			holder = nil // the new holder has not replaced it yet
		}
		return &LockedError{Dir: s.Dir, Holder: holder}
	}
}

// replace returns a *LockedError if the holder of a lock file may be alive, or cannot be checked from here. Under the
// same kernel, acquiring the file lock proves that the holder is dead; without file locks its pid decides. A
// different kernel means another machine or an earlier boot of this one, which cannot be distinguished.
func (s *Store) replace(old *Holder, locked bool) error {
	elsewhere := !old.SameKernel()
	if elsewhere || !locked && old.Running() {
		return &LockedError{Dir: s.Dir, Holder: old, Elsewhere: elsewhere, file: s.path("lock")}
	}
	return nil
}

// Lock retries for a second: the kernel releases the lock of a killed process only after it has freed
// the memory of the process, and Abandoned takes the lock for a moment.
const (
	lockTries = 100
	lockPause = 10 * time.Millisecond
)

// Release releases the lock and its claim. It does nothing if they were already released.
func (l *RunLock) Release() error {
	err := l.unlock()
	if l.claim != nil {
		err = errors.Join(err, os.Remove(l.claimed), l.claim.Release())
		l.claim = nil
	}
	return err
}

// unlock releases the lock, but not the claim.
func (l *RunLock) unlock() error {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held != l {
		return nil
	}
	s.held = nil
	return l.file.Release()
}

// Locked returns the process named in the lock file, alive or not. It returns nil if no process has taken
// the lock since it was last released. It changes nothing.
func (s *Store) Locked() (*Holder, error) { return fileutil.ReadHolder(s.path("lock")) }

// Abandoned reports whether a run ended without recording its end. The run is identified by its host
// and process id. It is abandoned if the process is gone and its lock file remains, or if it released
// the lock on a full disk. Abandoned returns false if the state cannot be determined, for example for
// another machine or a file system without locks.
func (s *Store) Abandoned(host string, pid int) bool {
	following, _ := s.Following()
	for _, f := range following {
		if f.Holder.Host == host && f.Holder.PID == pid {
			return !f.Alive
		}
	}

	h, err := s.Locked()
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
	return fileutil.TryLock(s.path("lock")) == nil
}
