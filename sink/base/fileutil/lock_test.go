package fileutil

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

func me() Holder { return Self("aicplan apply p.hcl", "", time.Now()) }

// TestLockFolderAfterKill checks that a lock file without a lock, as a killed process leaves
// one, does not delay the next writer.
func TestLockFolderAfterKill(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FolderLock), []byte(`{"pid": 1, "host": "node7"}`), 0o644); err != nil {
		t.Fatal(err)
	}

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

// TestLockFolderWaits checks that a second process waits for the first one and names it.
func TestLockFolderWaits(t *testing.T) {
	dir := t.TempDir()
	other, _, err := openShared(filepath.Join(dir, FolderLock))
	if err != nil {
		t.Fatal(err)
	}
	holder := Holder{Command: "aicplan apply other.hcl", PID: 1, Host: "node7"}
	if err := errors.Join(tryLock(other), writeHolder(other, holder)); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := LockFolder(ctx, dir, me()); !errors.Is(err, context.Canceled) {
		t.Errorf("it did not wait: %v", err)
	}

	folderTimeout = -1
	defer func() { folderTimeout = 5 * time.Minute }()
	_, err = LockFolder(t.Context(), dir, me())
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "other.hcl") {
		t.Errorf("%v", err)
	}

	if err := release(other); err != nil {
		t.Fatal(err)
	}
	if _, err := LockFolder(t.Context(), dir, me()); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// TestLocksRejectPipesAndLinks checks that files which another user placed in a shared folder
// neither block a lock nor lead it to another file.
func TestLocksRejectPipesAndLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	t.Setenv(DeviceDirVariable, dir)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}

	if err := syscall.Mkfifo(filepath.Join(dir, "GPU-1.lock"), 0o666); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	if _, err := LockDevice("GPU-1", me()); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("a pipe: %v", err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "GPU-2.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := LockDevice("GPU-2", me()); err == nil || errors.Is(err, ErrBusy) {
		t.Errorf("a link: %v", err)
	}
	if data, err := os.ReadFile(victim); string(data) != "text" {
		t.Errorf("the file behind the link is %q, %v", data, err)
	}
}

// TestDevice checks that a device has one holder at a time, in this process and in others, and
// that the lock of a killed process is free.
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
	if _, err := LockDevice("GPU-1", me()); !errors.As(err, &busy) || busy.Holder == nil ||
		busy.Holder.PID != os.Getpid() {
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
	if _, err := LockDevice("GPU-1", me()); !errors.As(err, &busy) || busy.Holder == nil ||
		busy.Holder.PID != cmd.Process.Pid {
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

// TestDeviceIsLockedByTheKernelsFile checks that runs of all users exclude each other by files that no user
// can create or remove, and that the holder is named.
func TestDeviceIsLockedByTheKernelsFile(t *testing.T) {
	t.Setenv(DeviceDirVariable, "")
	dir := t.TempDir()
	defer func(gpus, cpu string) { gpuFiles, processorFile = gpus, cpu }(gpuFiles, processorFile)
	gpuFiles, processorFile = filepath.Join(dir, "*", "information"), dir

	for i, name := range []string{"GPU-1", "GPU-2"} {
		gpu := filepath.Join(dir, name[:3]+string(rune('a'+i)))
		if err := os.Mkdir(gpu, 0o555); err != nil {
			t.Fatal(err)
		}
		text := "Model: \t\t NVIDIA H200\nGPU UUID: \t " + name + "\nBus Type: \t PCIe\n"
		if err := os.WriteFile(filepath.Join(gpu, "information"), []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}

	for _, name := range []string{"GPU-1", "GPU-2", Processor} {
		d, err := LockDevice(name, me())
		if err != nil || d.named {
			t.Fatalf("%s: %v", name, err)
		}

		var busy *BusyError
		if _, err := LockDevice(name, me()); !errors.As(err, &busy) {
			t.Errorf("%s: a second lock: %v", name, err)
		} else if h := busy.Holder; runtime.GOOS == "linux" &&
			(h == nil || h.PID != os.Getpid() || time.Since(h.Started) > time.Hour) {
			t.Errorf("%s: the holder: %v", name, h)
		}

		if err := d.Release(); err != nil {
			t.Fatal(err)
		}
		if d, err = LockDevice(name, me()); err != nil {
			t.Fatalf("%s after its release: %v", name, err)
		}
		if err := d.Release(); err != nil {
			t.Error(err)
		}
	}

	// A device without such a file is locked in the user's own folder.
	t.Setenv("TMPDIR", dir)
	d, err := LockDevice("GPU-3", me())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	if info, err := os.Stat(filepath.Dir(d.file.Name())); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestReleaseWhileAChildIsForked checks that a released device is free also while a forked
// child, which has not started its own program, has the lock file open.
func TestReleaseWhileAChildIsForked(t *testing.T) {
	t.Setenv(DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	d, err := LockDevice("GPU-1", me())
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(d.file.Fd()))
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
