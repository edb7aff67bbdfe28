package checkpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSuspendedLock checks that a suspended lock lets other runs use the state folder, except for what the run has
// claimed, and that garbage collection waits for its end.
func TestSuspendedLock(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	a, b := open(t, dir, Options{}), open(t, dir, Options{})
	first, err := a.Lock(LockInfo{Command: "aicplan apply a.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Claim([]string{"collect.read"}, []string{"collect.a"}); err != nil {
		t.Fatal(err)
	}
	if err := first.Suspend("run-a"); err != nil {
		t.Fatal(err)
	}

	if a.Abandoned(host, os.Getpid()) {
		t.Error("the run that follows jobs is reported as abandoned")
	}
	if _, err := b.GC(context.Background(), GCOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("gc: %v", err)
	}
	if _, err := b.GC(context.Background(), GCOptions{DryRun: true}); !errors.Is(err, ErrLocked) {
		t.Errorf("gc --dry-run: %v", err)
	}

	second, err := b.Lock(LockInfo{Command: "aicplan apply b.hcl"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		reads, writes []string
		shared        string
	}{
		{[]string{"collect.read"}, []string{"collect.b"}, ""},
		{[]string{"collect.a"}, []string{"collect.b"}, "collect.a"},
		{nil, []string{"collect.b", "collect.a"}, "collect.a"},
		{nil, []string{"collect.read"}, "collect.read"},
	} {
		err := second.Claim(c.reads, c.writes)
		if c.shared == "" && err == nil {
			continue
		}
		var le *LockedError
		if !errors.As(err, &le) || le.Shared != c.shared || !strings.Contains(err.Error(), "a.hcl") {
			t.Errorf("reads %v, writes %v: %v", c.reads, c.writes, err)
		}
	}

	wantLocked(t, first.Resume(), os.Getpid(), "aicplan apply b.hcl")
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if err := first.Resume(); err != nil {
		t.Fatal(err)
	}
	_, err = b.Lock(LockInfo{})
	wantLocked(t, err, os.Getpid(), "aicplan apply a.hcl")
	if err := errors.Join(first.Suspend("run-a"), first.Release()); err != nil {
		t.Fatal(err)
	}
	if all, err := b.Following(); err != nil || len(all) > 0 {
		t.Errorf("after the run: %v, %v", all, err)
	}
	if _, err := b.GC(context.Background(), GCOptions{}); err != nil {
		t.Errorf("gc after the run: %v", err)
	}
}

// TestClaimsOfKilledRuns checks that what a killed process has claimed is free, and that the claim of another machine
// names the file to remove.
func TestClaimsOfKilledRuns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir, Options{})
	lock, err := s.Lock(LockInfo{})
	if err != nil {
		t.Fatal(err)
	}

	folder := filepath.Join(dir, "following")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	far := filepath.Join(folder, "far")
	for path, text := range map[string]string{
		far: `{"pid": 1, "host": "node7", "boot_id": "other", "writes": ["collect.far"]}`,
		filepath.Join(folder, "killed"): `{"pid": 1, "boot_id": "` + strings.TrimSpace(string(boot)) +
			`", "writes": ["collect.a"]}`,
		filepath.Join(folder, "half"): `{"pid": 1, "wri`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if err := lock.Claim(nil, []string{"collect.a"}); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	err = lock.Claim(nil, []string{"collect.far"})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "remove "+far) {
		t.Errorf("a claim of another machine: %v", err)
	}
}
