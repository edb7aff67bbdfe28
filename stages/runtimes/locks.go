package runtimes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// Locks prevents two runs on one host from measuring at the same time. A run locks the devices of a
// runtime when the first stage measures on it, and releases them at the end of the run because workers
// stay warm.
type Locks struct {
	// Me describes this run to other runs.
	Me fileutil.Holder
	// Allotted is set if a scheduler has assigned processors to this run. They are not locked, because
	// other runs on the host have different ones.
	Allotted bool
	// Timeout limits the wait for a device; take then returns a *fileutil.BusyError. Zero means no
	// limit.
	Timeout time.Duration

	mu   sync.Mutex                    // serializes callers of take
	held map[string]*fileutil.FileLock // by UUID
}

// devicePoll is the retry interval for a device in use.
const devicePoll = 100 * time.Millisecond

// take locks devices in the same order in all runs. It waits only if this run has no other locks,
// because two runs could otherwise wait for each other. If it cannot lock all devices, it releases those
// that it locked.
func (l *Locks) take(ctx context.Context, rt *stage.Runtime, uuids []string, at Place) error {
	if len(uuids) == 0 {
		return nil
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(uuids)
	taken := map[string]*fileutil.FileLock{}
	for _, uuid := range slices.Compact(uuids) {
		if l.held[uuid] != nil || l.Allotted && uuid == fileutil.Processor {
			continue
		}

		d, err := l.wait(ctx, rt, uuid, at)
		if err != nil {
			return errors.Join(err, release(taken))
		}
		if d != nil {
			taken[uuid] = d
		}
	}

	maps.Copy(taken, l.held)
	l.held = taken
	return nil
}

func release(locks map[string]*fileutil.FileLock) error {
	var errs []error
	for _, d := range locks {
		errs = append(errs, d.Release())
	}
	return errors.Join(errs...)
}

// wait locks a device and waits until it is free, but not if the run has locked others. It returns nil without an error
// if the device cannot be locked.
func (l *Locks) wait(ctx context.Context, rt *stage.Runtime, uuid string, at Place) (*fileutil.FileLock, error) {
	started, shown := time.Now(), false
	for tries := 0; ; tries++ {
		d, err := fileutil.LockDevice(uuid, l.Me)
		busy, isBusy := errors.AsType[*fileutil.BusyError](err)
		switch {
		case err == nil:
			return d, nil
		case uuid == "":
			why := "they are behind its launcher, and this machine does not list them"
			if len(rt.Launcher) == 0 {
				why = "the driver does not show their UUIDs; switch persistence mode on (nvidia-smi -pm 1)"
			}
			at.say("the GPUs of %s are not locked, so another run may measure on them at the same time unnoticed: %s",
				rt.Address, why)
			return nil, nil
		case !isBusy:
			at.say("%s is not locked, so another run may measure at the same time unnoticed: %v", uuid, err)
			return nil, nil
		case len(l.held) > 0:
			return nil, fmt.Errorf(
				"%w; this run holds other devices already and does not wait for more, since the other may wait for these",
				err,
			)
		case l.Timeout > 0 && time.Since(started) > l.Timeout:
			return nil, err
		}

		// A new lock holder may not have written its description yet.
		if !shown && (busy.Holder != nil || tries > 0) {
			at.say("%s waits: %v", rt.Address, busy)
			shown = true
		}
		select {
		case <-at.Stop:
			return nil, context.Canceled
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(devicePoll):
		}
	}
}

// release releases all devices.
func (l *Locks) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := release(l.held)
	l.held = nil
	return err
}

// devicesOf returns the lock names of the devices that the workers of a runtime measure on.
func (p *Pools) devicesOf(rt *stage.Runtime, slots []worker.Slot) []string {
	kind := p.Kind(rt.Kind)
	if kind.OffMachine != nil && kind.OffMachine(rt) {
		return nil
	}

	var out []string
	for _, s := range slots {
		if uuid := s.Spec.Init.UUID; uuid != "" && !kind.HasOneWorker(rt) {
			out = append(out, uuid)
		}
	}

	if len(out) > 0 {
		return out
	}

	if !kind.OnGPUs(rt) {
		if kind.OnProcessor {
			return []string{fileutil.Processor}
		}
		return nil // it does not measure this machine
	}

	devices, err := p.chosen(rt)
	switch {
	case err == nil:
		out = uuidsOf(devices)
	case kind.OnProcessor:
		return []string{fileutil.Processor} // a machine without GPUs
	}

	return out // otherwise the workers report the error
}
