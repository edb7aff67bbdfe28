package runtimes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/sink/filelock"
)

// Locks keeps two runs of one host from measuring at the same time, which
// neither would notice. A run holds the devices of a runtime from the first
// stage that measures on it until its end, because workers stay warm.
type Locks struct {
	// Me is what others are told about this run.
	Me filelock.Holder
	// Allotted is true where a scheduler has given processors to this run: they are
	// not locked, since others on the host were given others.
	Allotted bool
	// Timeout ends the wait for a device with a *filelock.BusyError; 0 means that
	// only the user does.
	Timeout time.Duration

	mu   sync.Mutex                  // of those who take devices: one waits at a time
	held map[string]*filelock.Device // by UUID
}

// devicePoll is how often a device in use is tried again.
const devicePoll = 100 * time.Millisecond

// processor is what runtimes that measure on the processor lock.
const processor = "cpu"

// take locks devices, in one order for all runs. It waits for them while this run
// holds no other: two that wait for each other would wait for ever. Where it cannot
// have all, it keeps none of them.
func (l *Locks) take(ctx context.Context, rt *stage.Runtime, uuids []string, at Place) (err error) {
	if len(uuids) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(uuids)
	var taken []string
	defer func() {
		if err == nil {
			return
		}
		for _, uuid := range taken {
			err = errors.Join(err, l.held[uuid].Release())
			delete(l.held, uuid)
		}
	}()
	started, others := time.Now(), len(l.held) > 0
	for _, uuid := range slices.Compact(uuids) {
		if l.held[uuid] != nil || l.Allotted && uuid == processor {
			continue
		}
		told, looked := false, false // each may have another holder
		for {
			d, err := filelock.LockDevice(uuid, l.Me)
			if err == nil {
				if l.held == nil {
					l.held = map[string]*filelock.Device{}
				}
				l.held[uuid] = d
				taken = append(taken, uuid)
				break
			}
			var busy *filelock.BusyError
			switch {
			case uuid == "":
				at.say(fmt.Sprintf("the GPUs of %s are not locked, so another run may measure on them at the same time unnoticed: they are behind its launcher, and this machine does not list them", rt.Address))
			case !errors.As(err, &busy):
				at.say(fmt.Sprintf("%s is not locked, so another run may measure at the same time unnoticed: %v", uuid, err))
			case others:
				return fmt.Errorf("%w; this run holds other devices already and does not wait for more, since the other may wait for these", err)
			case l.Timeout > 0 && time.Since(started) > l.Timeout:
				return err
			default:
				// Who has just taken it has not yet written who it is.
				if !told && (busy.Holder != nil || looked) {
					at.say(fmt.Sprintf("%s waits: %v", rt.Address, busy))
					told = true
				}
				looked = true
				select {
				case <-at.Stop:
					return context.Canceled
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(devicePoll):
				}
				continue
			}
			break
		}
	}
	return nil
}

// release gives all devices back.
func (l *Locks) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, d := range l.held {
		errs = append(errs, d.Release())
	}
	l.held = nil
	return errors.Join(errs...)
}

// devicesOf names what the workers of a runtime measure on.
func (p *Pools) devicesOf(rt *stage.Runtime, slots []worker.Slot) []string {
	kind := p.Kind(rt.Kind)
	if kind.OnNothing != nil && kind.OnNothing(rt) {
		return nil
	}
	var out []string
	for _, s := range slots {
		if uuid := s.Spec.Init.UUID; uuid != "" && !kind.HasAll(rt) {
			out = append(out, uuid)
		}
	}
	if len(out) > 0 {
		return out
	}
	if kind.OnGPUs == nil || !kind.OnGPUs(rt) {
		if kind.OnProcessor {
			return []string{processor}
		}
		return nil // what it measures is not of this machine
	}
	devices, err := chosen(rt, p.Devices)
	switch {
	case err == nil:
		for _, d := range devices {
			out = append(out, d.UUID)
		}
	case kind.OnProcessor:
		return []string{processor} // a machine without GPUs
	}
	return out // else the workers say what is wrong
}
