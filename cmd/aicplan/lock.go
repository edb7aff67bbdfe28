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
	until := time.Now().Add(a.global.LockTimeout)
	told := false
	for {
		lock, err := store.Lock(checkpoint.LockInfo{Command: a.commandLine()})
		held, locked := errors.AsType[*checkpoint.LockedError](err)
		if !locked || held.Elsewhere || !time.Now().Before(until) {
			if locked && executors.Used(store.Dir()) {
				err = fmt.Errorf("%w; if it follows jobs of a cluster, press Ctrl-C in it: the jobs continue; apply --detach returns once jobs are submitted, so that they do not keep other plans waiting",
					err)
			}
			return lock, err
		}
		if !told {
			fmt.Fprintf(a.stderr, "Waiting up to %s: %v\n", a.global.LockTimeout, err)
			told = true
		}
		time.Sleep(lockPause)
	}
}
