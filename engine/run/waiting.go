package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"aicplan/engine/checkpoint"
)

// holds counts who needs the run lock: the loop and the stages that run. The lock is suspended while there are none.
type holds struct {
	lock  *checkpoint.RunLock // nil: there is nothing to suspend
	runID string

	mu        sync.Mutex
	n         int
	suspended bool
}

func (h *holds) add() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
}

// drop ends a hold.
func (h *holds) drop() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n--
	if h.n > 0 || h.suspended || h.lock == nil {
		return nil
	}
	err := h.lock.Suspend(h.runID)
	h.suspended = err == nil
	return err
}

// lockPause is the interval at which a suspended lock is tried.
const lockPause = 200 * time.Millisecond

// retake begins a hold and takes a suspended lock again. It calls warn once if it has to wait, and returns
// context.Canceled if stop is closed before it has the lock.
func (h *holds) retake(stop <-chan struct{}, warn func(error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	for warned := false; h.suspended; warned = true {
		err := h.lock.Resume()
		if err == nil {
			h.suspended = false
			break
		}
		if !warned {
			warn(err)
		}

		select {
		case <-stop:
			return context.Canceled
		case <-time.After(lockPause):
		}
	}
	return nil
}

// unlocked returns the function that a stage calls to wait without the run lock; see stage.RunContext.
func (r *runner) unlocked(address string) func(wait func() error) error {
	return func(wait func() error) error {
		if err := r.holds.drop(); err != nil {
			r.ev.Message(address, "warn", "other runs cannot use the state folder meanwhile: "+err.Error())
		}
		err := wait()
		return errors.Join(err, r.holds.retake(r.opts.Stop, func(err error) {
			r.ev.Message(address, "warn", "the results cannot be stored yet: "+err.Error())
		}))
	}
}
