package checkpoint

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aicplan/sink/base/fileutil"
)

func wantLocked(t *testing.T, err error, pid int, command string) {
	t.Helper()
	var le *LockedError
	if !errors.As(err, &le) || !errors.Is(err, ErrLocked) {
		t.Fatalf("not a LockedError: %v", err)
	}
	if le.Holder == nil || le.Holder.PID != pid || le.Holder.Command != command ||
		!strings.Contains(err.Error(), command) {
		t.Fatalf("it does not name the holder %d %q: %v, %+v", pid, command, err, le.Holder)
	}
}

// TestAbandoned checks that a run is not abandoned while it has the lock, and is once it has released it. Runs on
// other machines are never reported as abandoned.
func TestAbandoned(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	s, reader := open(t, dir, Options{}), open(t, dir, Options{})
	me, other := os.Getpid(), os.Getpid()+1
	want := func(when string, pids map[int]bool) {
		t.Helper()
		for pid, want := range pids {
			if got := reader.Abandoned(host, pid); got != want {
				t.Errorf("%s: process %d is gone: %v", when, pid, got)
			}
			if pid != me && reader.Abandoned("another "+host, pid) {
				t.Errorf("%s: a process of another machine is gone", when)
			}
		}
	}
	lock, err := s.Lock(LockInfo{Command: "aicplan apply x.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	want("during the run", map[int]bool{me: false, other: true})
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	want("after the run", map[int]bool{me: true, other: true})
	if reader.Abandoned("another "+host, me) {
		t.Error("a process of another machine is gone")
	}
}

func TestLockExcludesAndNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	a, b := open(t, dir, Options{Now: now}), open(t, dir, Options{})
	lock, err := a.Lock(LockInfo{Command: "aicplan apply x.hcl", RunID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Lock(LockInfo{Command: "other"})
	wantLocked(t, err, os.Getpid(), "aicplan apply x.hcl")
	if !strings.Contains(err.Error(), "wait for it, or end it") || !strings.Contains(err.Error(), dir) {
		t.Errorf("message: %v", err)
	}
	h, err := b.Locked()
	if err != nil || h == nil || h.RunID != "r1" || !h.Started.Equal(now()) || h.Host == "" || h.StartTicks == 0 {
		t.Errorf("holder %+v, %v", h, err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Errorf("releasing twice: %v", err)
	}
	if h, err := b.Locked(); h != nil || err != nil {
		t.Errorf("a mark was left: %+v, %v", h, err)
	}
	if _, err = b.Lock(LockInfo{Command: "other"}); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := b.Close(); err != nil { // gives the lock back
		t.Fatal(err)
	}
	if _, err = a.Lock(LockInfo{}); err != nil {
		t.Fatalf("after Close: %v", err)
	}
}

func TestLockFilesOfOtherProcesses(t *testing.T) {
	mark := func(t *testing.T, change func(h *Holder)) *Store {
		s := newStore(t)
		if err := s.ensure(); err != nil {
			t.Fatal(err)
		}
		h := fileutil.Self("aicplan apply far.hcl", "", time.Now())
		change(&h)
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path("lock"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("another machine", func(t *testing.T) {
		s := mark(t, func(h *Holder) { h.Host, h.BootID, h.PID = "far-away", "another-boot", 4242 })
		_, err := s.Lock(LockInfo{})
		wantLocked(t, err, 4242, "aicplan apply far.hcl")
		if !strings.Contains(err.Error(), "pid 4242 on far-away") || !strings.Contains(err.Error(), "lock") {
			t.Errorf("message: %v", err)
		}
		if err := os.Remove(s.path("lock")); err != nil {
			t.Error(err)
		}
		if _, err := s.Lock(LockInfo{}); err != nil {
			t.Errorf("after its removal: %v", err)
		}
	})
	t.Run("this machine before its last boot", func(t *testing.T) {
		s := mark(t, func(h *Holder) { h.BootID = "earlier" })
		_, err := s.Lock(LockInfo{})
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "lock") {
			t.Errorf("a machine of the same name may be alive: %v", err)
		}
		if err := os.Remove(s.path("lock")); err != nil {
			t.Error(err)
		}
		if _, err := s.Lock(LockInfo{}); err != nil {
			t.Errorf("after its removal: %v", err)
		}
	})
	t.Run("another container of this machine", func(t *testing.T) {
		s := mark(t, func(h *Holder) { h.Host = "container-2" })
		if _, err := s.Lock(LockInfo{}); err != nil {
			t.Errorf("the file lock is free, so it is dead: %v", err)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		s := mark(t, func(*Holder) {})
		if err := os.WriteFile(s.path("lock"), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Lock(LockInfo{}); err != nil {
			t.Error(err)
		}
	})
}

// Without file system locks, the pid decides.
func TestHolderWithoutFileLock(t *testing.T) {
	me := fileutil.Self("", "", time.Now())
	for _, tc := range []struct {
		name             string
		change           func(h *Holder)
		alive, elsewhere bool
	}{
		{"this process", func(*Holder) {}, true, false},
		{"its pid, another process", func(h *Holder) { h.StartTicks++ }, false, false},
		{"no such pid", func(h *Holder) { h.PID = 1 << 30 }, false, false},
		{"another boot", func(h *Holder) { h.BootID = "x" }, false, true},
		{"another machine", func(h *Holder) { h.BootID, h.Host = "x", "y" }, false, true},
	} {
		h := me
		tc.change(&h)
		err, _ := errors.AsType[*LockedError]((&Store{}).replace(&h, false))
		if (err != nil) != (tc.alive || tc.elsewhere) || err != nil && err.Elsewhere != tc.elsewhere {
			t.Errorf("%s: %+v", tc.name, err)
		}
	}
}

// TestLockRetriesForABoundedTime checks that Lock succeeds if the lock is released in time; otherwise the error
// names the holder.
func TestLockRetriesForABoundedTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, b := open(t, dir, Options{}), open(t, dir, Options{})
	lock, err := a.Lock(LockInfo{Command: "aicplan apply x.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	waited := 0
	b.pause = func() { waited++ }
	_, err = b.Lock(LockInfo{Command: "other"})
	wantLocked(t, err, os.Getpid(), "aicplan apply x.hcl")
	if waited != lockTries {
		t.Errorf("%d retries, want %d", waited, lockTries)
	}

	waited = 0
	b.pause = func() {
		if waited++; waited == 3 {
			if err := lock.Release(); err != nil {
				t.Error(err)
			}
		}
	}
	next, err := b.Lock(LockInfo{Command: "other"})
	if err != nil || waited != 3 {
		t.Fatalf("%v after %d retries", err, waited)
	}
	if err := next.Release(); err != nil {
		t.Error(err)
	}
}
