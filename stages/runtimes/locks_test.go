package runtimes

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// holding locks a device as another run.
func holding(t *testing.T, uuid, command string) *fileutil.FileLock {
	t.Helper()
	d, err := fileutil.LockDevice(uuid, fileutil.Self(command, "", time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestLocksReportHolderOfEveryDevice checks that each wait reports the lock holder of its device.
func TestLocksReportHolderOfEveryDevice(t *testing.T) {
	t.Setenv(fileutil.DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	others := []*fileutil.FileLock{holding(t, "GPU-a", "the first one"), holding(t, "GPU-b", "the second one")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // if the test fails
	defer cancel()
	var said []string
	var l Locks
	err := l.take(ctx, &stage.Runtime{Address: "runtime.r"}, []string{"GPU-b", "GPU-a"}, Place{Say: func(text string) {
		if said = append(said, text); len(said) <= len(others) {
			if err := others[len(said)-1].Release(); err != nil {
				t.Error(err)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(said) != 2 || !strings.Contains(said[0], "the first one") || !strings.Contains(said[1], "the second one") {
		t.Errorf("said %q", said)
	}
	if err := l.release(); err != nil {
		t.Error(err)
	}
}

// TestLocksReportUnknownDevicesOfLauncher checks that unknown GPUs are reported by the name of their runtime.
func TestLocksReportUnknownDevicesOfLauncher(t *testing.T) {
	t.Setenv(fileutil.DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	var said []string
	var l Locks
	if err := l.take(t.Context(), &stage.Runtime{Address: "runtime.r"}, []string{"", ""},
		Place{Say: func(text string) { said = append(said, text) }}); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || !strings.HasPrefix(said[0], "the GPUs of runtime.r are not locked") {
		t.Errorf("said %q", said)
	}
}

// TestLocksAreReleasedIfOneIsBusy checks that a run that cannot lock all devices of a runtime releases the
// ones that it locked.
func TestLocksAreReleasedIfOneIsBusy(t *testing.T) {
	t.Setenv(fileutil.DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	mine := holding(t, "GPU-0", "this run")
	other := holding(t, "GPU-b", "another run")
	l := Locks{held: map[string]*fileutil.FileLock{"GPU-0": mine}} // with a lock, take does not wait
	if err := l.take(t.Context(), &stage.Runtime{Address: "runtime.r"}, []string{"GPU-0", "GPU-a", "GPU-b"},
		Place{}); !errors.Is(err, fileutil.ErrBusy) {
		t.Fatalf("took them: %v", err)
	}
	if l.held["GPU-0"] == nil || len(l.held) != 1 {
		t.Errorf("holds %d devices", len(l.held))
	}
	if err := holding(t, "GPU-a", "a third run").Release(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(other.Release(), l.release()); err != nil {
		t.Error(err)
	}
}

// TestRuntimeWithoutDeviceDoesNotWaitForLocks checks that a stage without a device gets its workers while another stage
// waits for a GPU.
func TestRuntimeWithoutDeviceDoesNotWaitForLocks(t *testing.T) {
	t.Setenv(fileutil.DeviceDirVariable, filepath.Join(t.TempDir(), "locks"))
	other := holding(t, twoGPUs[0].UUID, "another run")
	p := NewPools(Kinds())
	defer p.Close()
	p.Devices, p.Locks = listed(twoGPUs...), &Locks{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // if the test fails
	defer cancel()
	waits, got := make(chan string, 1), make(chan error, 1)
	at := Place{StateDir: t.TempDir()}
	go func() {
		at := at
		at.Say = func(text string) { waits <- text }
		_, err := p.Get(ctx, &stage.Runtime{Address: "runtime.gpu", Kind: "cuda"}, at)
		got <- err
	}()
	if text := <-waits; !strings.Contains(text, "another run") {
		t.Error(text)
	}
	rt := &stage.Runtime{Address: "runtime.predicts", Kind: "python", Python: fakePython(t, "1"),
		Options: map[string]cty.Value{"device": cty.StringVal("none")}}
	if pool, err := p.Get(ctx, rt, at); err != nil || pool == nil {
		t.Errorf("%v, %v", pool, err)
	}
	select {
	case err := <-got:
		t.Fatalf("got the GPU of another run, %v", err)
	default:
	}
	if err := other.Release(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}
