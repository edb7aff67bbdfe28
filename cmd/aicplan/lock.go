package main

import (
	"errors"
	"fmt"
	"time"

	"aicplan/engine/checkpoint"
)

// lockPause is how long to wait before the lock of the state folder is asked
// for again.
const lockPause = 200 * time.Millisecond

// lock takes the run lock of the state folder, and waits for its holder as long
// as -lock-timeout says. Whoever waits is told once for whom.
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
