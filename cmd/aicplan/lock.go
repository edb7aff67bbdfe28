package main

import (
	"errors"
	"fmt"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/stages/executors"
)

// lockPause is the retry interval for the lock of the state folder.
const lockPause = 200 * time.Millisecond

// lock locks the state folder for a run. It waits for the lock holder up to --lock-timeout and prints the
// holder once. The error describes how to continue if the holder may follow jobs for days.
func (a *app) lock(store *checkpoint.Store) (*checkpoint.RunLock, error) {
	lock, err := retry(a, time.Now().Add(a.global.LockTimeout), func() (*checkpoint.RunLock, error) {
		return store.Lock(checkpoint.LockInfo{Command: a.commandLine()})
	}, func(err error) bool {
		held, locked := errors.AsType[*checkpoint.LockedError](err)
		return locked && !held.Elsewhere
	})
	if errors.Is(err, checkpoint.ErrLocked) && executors.Used(store.Dir()) {
		err = fmt.Errorf("%w; if it follows jobs of a cluster, press Ctrl-C in it: the jobs continue; apply --detach returns once jobs are submitted, so that they do not keep other plans waiting",
			err)
	}
	return lock, err
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
