package main

import (
	"errors"
	"fmt"
	"time"

	"aicplan/engine/checkpoint"
)

// lockPause is the retry interval for the lock of the state folder.
const lockPause = 200 * time.Millisecond

// lock locks the state folder. It waits for the lock holder up to --lock-timeout and prints the holder once.
func (a *app) lock(store *checkpoint.Store) (*checkpoint.RunLock, error) {
	return a.lockFor(store, func(*checkpoint.RunLock) error { return nil })
}

// lockFor is like lock, but waits also while claim returns a *checkpoint.LockedError.
func (a *app) lockFor(store *checkpoint.Store, claim func(*checkpoint.RunLock) error) (*checkpoint.RunLock, error) {
	return retry(a, time.Now().Add(a.global.LockTimeout), func() (*checkpoint.RunLock, error) {
		lock, err := store.Lock(checkpoint.LockInfo{Command: a.commandLine()})
		if err != nil {
			return nil, err
		}
		if err := claim(lock); err != nil {
			return nil, errors.Join(err, lock.Release())
		}
		return lock, nil
	}, func(err error) bool {
		held, locked := errors.AsType[*checkpoint.LockedError](err)
		return locked && !held.Elsewhere
	})
}

// retry repeats try until the given time while its error is one to wait for. It prints the error once.
func retry[T any](a *app, until time.Time, try func() (T, error), wait func(error) bool) (T, error) {
	for n := 0; ; n++ {
		v, err := try()
		if err == nil || !wait(err) || !time.Now().Before(until) {
			return v, err
		}
		if n == 0 {
			fmt.Fprintf(a.stderr, "Waiting up to %s: %v\n", a.global.LockTimeout, err)
		}
		time.Sleep(lockPause)
	}
}
