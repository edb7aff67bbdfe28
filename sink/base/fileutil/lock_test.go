package fileutil

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func me() Holder { return Self("aicplan apply p.hcl", "", time.Now()) }

func put(t *testing.T, dir string, change func(*Holder)) {
	t.Helper()
	h := me()
	change(&h)
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, FolderMark), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFolderOfADeadProcess: a mark of a process that died under this kernel is
// taken over, in another container too.
func TestFolderOfADeadProcess(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, func(h *Holder) { h.Host = "another-container" })
	unlock, err := LockFolder(t.Context(), dir, me())
	if err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestFolderOfAnotherMachine: whether its holder lives cannot be known, so the
// mark stays until aicplan unlock.
func TestFolderOfAnotherMachine(t *testing.T) {
	for name, change := range map[string]func(*Holder){
		"another host":         func(h *Holder) { h.Host, h.BootID = "node7", "x" },
		"a host of this name":  func(h *Holder) { h.BootID = "x" },
		"an unreadable holder": nil,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if change == nil {
				if err := os.WriteFile(filepath.Join(dir, FolderMark), []byte("{"), 0o644); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, dir, change)
			}
			_, state, err := examine(filepath.Join(dir, FolderMark))
			if err != nil || state != unknown {
				t.Fatalf("state %v, %v", state, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := LockFolder(ctx, dir, me()); !errors.Is(err, context.Canceled) {
				t.Errorf("it did not wait: %v", err)
			}
			if err := os.Remove(filepath.Join(dir, FolderMark)); err != nil {
				t.Error(err)
			}
			if _, err := LockFolder(t.Context(), dir, me()); err != nil {
				t.Errorf("after its removal: %v", err)
			}
		})
	}
	e := &BusyError{What: "the folder /db", Holder: &Holder{Command: "c", PID: 1, Host: "node7"}, Unknown: true, Path: "/db/" + FolderMark}
	if !strings.Contains(e.Error(), "remove /db/"+FolderMark) || !errors.Is(e, ErrBusy) {
		t.Error(e)
	}
}

// TestDevice: one holder at a time, in this process and in others; the lock of a
// process that was killed is free.
func TestDevice(t *testing.T) {
	if uuid := os.Getenv("AICPLAN_TEST_DEVICE"); uuid != "" {
		_, err := LockDevice(uuid, me())
		if err != nil {
			os.Stdout.WriteString("busy\n")
			return
		}
		os.Stdout.WriteString("held\n")
		select {} // until killed
	}
	t.Setenv(DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	d, err := LockDevice("GPU-1", me())
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := LockDevice("GPU-1", me()); !errors.As(err, &busy) || busy.Holder == nil || busy.Holder.PID != os.Getpid() {
		t.Errorf("%v", err)
	}
	if other, err := LockDevice("GPU-2", me()); err != nil {
		t.Error(err)
	} else if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := d.Release(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(DeviceDir())
	if err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("other users cannot lock: %v, %v", info.Mode(), err)
	}
	if info, err = os.Stat(filepath.Join(DeviceDir(), "GPU-1.lock")); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("other users cannot lock: %v, %v", info.Mode(), err)
	}

	cmd := exec.Command(os.Args[0], "-test.run", "^TestDevice$")
	cmd.Env = append(os.Environ(), "AICPLAN_TEST_DEVICE=GPU-1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 5)
	if _, err := out.Read(word); err != nil || string(word) != "held\n" {
		t.Fatalf("%q, %v", word, err)
	}
	if _, err := LockDevice("GPU-1", me()); !errors.As(err, &busy) || busy.Holder == nil || busy.Holder.PID != cmd.Process.Pid {
		t.Errorf("held by %d: %v", cmd.Process.Pid, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if d, err = LockDevice("GPU-1", me()); err != nil {
		t.Fatalf("after a kill: %v", err)
	}
	if err := d.Release(); err != nil {
		t.Error(err)
	}
}

// TestReleaseWhileAChildIsForked: a released device is free also while a child has its
// file, as one has between its fork and its program.
func TestReleaseWhileAChildIsForked(t *testing.T) {
	t.Setenv(DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	d, err := LockDevice("GPU-1", me())
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(d.f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := d.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := LockDevice("GPU-1", me())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
