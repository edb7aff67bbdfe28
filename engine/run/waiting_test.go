package run

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"aicplan/engine/checkpoint"
)

// TestHoldsSuspendTheLock checks that the state folder is locked while a stage works, also if another one waits for
// jobs, and that Ctrl-C ends the wait for a lock that another run has.
func TestHoldsSuspendTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() *checkpoint.Store {
		s, err := checkpoint.Open(dir, checkpoint.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	mine, other := open(), open()
	lock, err := mine.Lock(checkpoint.LockInfo{Command: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()

	h := &holds{lock: lock, runID: "run"}
	said := 0
	say := func(error) { said++ }
	h.add() // a stage that measures here
	h.add() // a stage that waits for jobs
	if err := h.drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Lock(checkpoint.LockInfo{}); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("while a stage measures: %v", err)
	}

	if err := h.drop(); err != nil {
		t.Fatal(err)
	}
	theirs, err := other.Lock(checkpoint.LockInfo{Command: "theirs"})
	if err != nil {
		t.Fatalf("while all wait: %v", err)
	}
	stop := make(chan struct{})
	close(stop)
	if err := h.retake(stop, say); !errors.Is(err, context.Canceled) || said != 1 {
		t.Errorf("after Ctrl-C: %v, said %d times", err, said)
	}
	if err := h.drop(); err != nil {
		t.Fatal(err)
	}

	if err := theirs.Release(); err != nil {
		t.Fatal(err)
	}
	if err := h.retake(nil, say); err != nil || said != 1 {
		t.Errorf("%v, said %d times", err, said)
	}
	if _, err := other.Lock(checkpoint.LockInfo{}); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("after the wait: %v", err)
	}
}
