package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"aicplan/sink/base/fileutil"
	"aicplan/stages/runtimes"
)

// holdDevices locks GPUs while a command measures on them, as apply does for its stages. Without indices
// it locks all GPUs. It waits up to --lock-timeout and returns a *fileutil.BusyError if a device is still
// in use.
func (a *app) holdDevices(list func() ([]runtimes.Device, error), indices ...int) (release func() error, err error) {
	devices, err := list()
	if err != nil {
		return nil, fmt.Errorf("the GPUs to lock: %w", err)
	}

	var held []*fileutil.FileLock
	release = func() error {
		var errs []error
		for _, d := range held {
			errs = append(errs, d.Release())
		}
		return errors.Join(errs...)
	}

	until := time.Now().Add(a.global.LockTimeout)
	for _, d := range devices { // in bus order, like every run
		if len(indices) > 0 && !slices.Contains(indices, d.Index) {
			continue
		}

		lock, err := retry(a, until, func() (*fileutil.FileLock, error) {
			return fileutil.LockDevice(d.UUID, fileutil.Self(a.commandLine(), "", time.Now()))
		}, func(err error) bool { return errors.Is(err, fileutil.ErrBusy) })
		if errors.Is(err, fileutil.ErrBusy) {
			return nil, errors.Join(err, release())
		}

		if err != nil {
			fmt.Fprintf(a.stderr, "%s is not locked, so another run may measure at the same time unnoticed: %v\n", d.UUID, err)
			continue
		}

		held = append(held, lock)
	}

	return release, nil
}
