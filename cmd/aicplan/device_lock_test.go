package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"aicplan/sink/base/fileutil"
	"aicplan/stages/runtimes"
)

func twoGPUs() ([]runtimes.Device, error) {
	return []runtimes.Device{{Index: 0, UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}}, nil
}

// TestMeasuringCommandsLockDevices checks that a device locked by another run is rejected with the lock
// holder, and that a free device is locked until it is released.
func TestMeasuringCommandsLockDevices(t *testing.T) {
	t.Setenv(fileutil.DeviceDirVariable, t.TempDir())
	other, err := fileutil.LockDevice("GPU-1", fileutil.Self("aicplan apply night.hcl", "", time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	a := &app{stderr: &said}
	if _, err := a.holdDevices(twoGPUs); !errors.Is(err, fileutil.ErrBusy) || !strings.Contains(err.Error(), "night.hcl") {
		t.Errorf("a device in use: %v", err)
	}
	release, err := a.holdDevices(twoGPUs, 0) // free again; the other GPU is not requested
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fileutil.LockDevice("GPU-0", fileutil.Holder{}); !errors.Is(err, fileutil.ErrBusy) {
		t.Errorf("the device is not held: %v", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	synctest.Test(t, func(t *testing.T) { // a device is tried at least once before the timeout
		began := time.Now()
		a.global.LockTimeout = time.Second
		if _, err := a.holdDevices(twoGPUs, 1); !errors.Is(err, fileutil.ErrBusy) ||
			strings.Count(said.String(), "Waiting up to 1s") != 1 {
			t.Errorf("%v, said %q", err, said.String())
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("waited for %v", waited)
		}
	})
	if err := other.Release(); err != nil {
		t.Error(err)
	}
	if release, err = a.holdDevices(twoGPUs); err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	none := func() ([]runtimes.Device, error) { return nil, nil }
	if release, err = a.holdDevices(none); err != nil || release() != nil {
		t.Errorf("a machine without GPUs: %v", err)
	}
}
