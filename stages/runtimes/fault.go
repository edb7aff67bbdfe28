package runtimes

import (
	"context"
	"errors"
	"syscall"

	"aicplan/cudaops/pyhost"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// PlaceOf returns the place from which a stage's workers are started.
func PlaceOf(rc *stage.RunContext) Place {
	return Place{
		RunDir: rc.RunDir, StateDir: rc.Store.Dir, PlanDir: rc.PlanDir, Stop: rc.Stop,
		Say: func(text string) { rc.Events.Message(rc.Address, "warn", text) },
	}
}

// Fault reports whether an error of Pools.Get is caused by this run, such as a full disk, a device in
// use or Ctrl-C. Another container would not help then.
func Fault(err error) bool {
	if _, ok := errors.AsType[*pyhost.WriteError](err); ok {
		return true
	}
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, fileutil.ErrBusy,
		context.Canceled} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
