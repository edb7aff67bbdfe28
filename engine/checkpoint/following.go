package checkpoint

import (
	"errors"
	"os"
	"slices"

	"aicplan/sink/base/fileutil"
)

// Claim registers which stages and files the run reads and writes. It returns a *LockedError if a run that
// follows jobs writes one of them, or reads one that this run writes. Suspend requires a claim.
func (l *RunLock) Claim(reads, writes []string) error {
	l.me.Reads, l.me.Writes = reads, writes
	others, err := l.store.Following()
	if err != nil {
		return err
	}

	for _, other := range others {
		if !other.Alive {
			_ = os.Remove(other.file) // a later run tries again
			continue
		}

		theirs := slices.Concat(other.Holder.Writes, other.Holder.Reads)
		for _, name := range slices.Concat(writes, reads) {
			at := slices.Index(theirs, name)
			if at >= 0 && (at < len(other.Holder.Writes) || slices.Contains(writes, name)) {
				other.Shared = name
				return other
			}
		}
	}

	return nil
}

// Suspend releases the lock, so that other runs can use the state folder while this one only follows jobs.
// Until Release, no other run can claim what this one writes, and GC fails. After an error, the caller still has
// the lock.
func (l *RunLock) Suspend(runID string) error {
	s := l.store
	if l.claim == nil {
		if err := s.mkdir(s.path("following")); err != nil {
			return err
		}

		me := l.me
		me.RunID = runID
		path := s.path("following", runID+"-"+randomHex(8))
		claim, err := fileutil.LockFile(path, "state folder "+s.Dir, me, nil)
		if err != nil {
			return err
		}
		l.claim, l.claimed = claim, path
	}

	_ = l.unlock() // the lock is free also if its file still names this process
	return nil
}

// Resume takes a suspended lock again. It fails with a *LockedError after one second of retries.
func (l *RunLock) Resume() error { return l.take() }

// Following returns an error for each run that follows jobs without the run lock, including those that have
// ended without releasing their claim.
func (s *Store) Following() ([]*LockedError, error) {
	paths, err := fileutil.Glob(s.path("following"), "*")
	if err != nil {
		return nil, err
	}

	var out []*LockedError
	for _, path := range paths {
		e := &LockedError{Dir: s.Dir, Follows: true, file: path}
		lockErr := fileutil.TryLock(path)
		e.Alive = errors.Is(lockErr, fileutil.ErrBusy)
		if e.Holder, _ = fileutil.ReadHolder(path); e.Holder == nil {
			e.Holder = &Holder{} // a killed process has not completed it
		} else {
			e.Elsewhere = !e.Holder.SameKernel()
			e.Alive = e.Alive || e.Elsewhere || lockErr != nil && e.Holder.Running()
		}

		if _, err := os.Lstat(path); err == nil {
			out = append(out, e)
		}
	}

	return out, nil
}
