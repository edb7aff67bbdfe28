package main

import (
	"errors"
	"fmt"
	"time"

	"aicplan/engine/checkpoint"
)

// lockPause is the retry interval for the lock of the state folder.
const lockPause = 200 * time.Millisecond

// lock locks the state folder for a run. It waits for the lock holder up to --lock-timeout and prints the
// holder once.
func (a *app) lock(store *checkpoint.Store) (*checkpoint.RunLock, error) {
	until := time.Now().Add(a.global.LockTimeout)
	told := false
	for {
		lock, err := store.Lock(checkpoint.LockInfo{Command: a.commandLine()})
		held, locked := errors.AsType[*checkpoint.LockedError](err)
		if !locked || held.Elsewhere || !time.Now().Before(until) {
			return lock, err
		}
		if !told {
			fmt.Fprintf(a.stderr, "Waiting up to %s: %v\n", a.global.LockTimeout, err)
			told = true
		}
		time.Sleep(lockPause)
	}
}
