package fileutil

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DeviceDirVariable names the environment variable with a folder for lock files of devices. Without it,
// devices are locked by files of the kernel.
const DeviceDirVariable = "AICPLAN_LOCK_DIR"

// Processor is the device name of the processor.
const Processor = "cpu"

// Files of the kernel that stand for devices. Every user can lock them, and no user can create, replace or
// remove them.
var (
	gpuFiles      = "/proc/driver/nvidia/gpus/*/information"
	processorFile = "/sys/devices/system/cpu"
)

// Device is a locked device.
type Device struct {
	file *os.File
	// name, if not nil, is bound to an abstract socket. It keeps the device locked if the lock file in a
	// folder is removed.
	name net.Listener
}

// LockDevice locks a device of this machine by its UUID. It returns a *BusyError at once if another process
// has it. The kernel ends the lock with the process. A device without a file of the kernel is locked in the
// folder for temporary files of this user, against this user's processes.
func LockDevice(uuid string, me Holder) (*Device, error) {
	if uuid == "" {
		return nil, errors.New("a device without a name cannot be locked")
	}
	if dir := os.Getenv(DeviceDirVariable); dir != "" {
		return lockInFolder(dir, uuid, me)
	}

	if f, err := os.Open(kernelFile(uuid)); err == nil {
		switch err := tryLock(f); {
		case err == nil:
			return &Device{file: f}, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(&BusyError{What: "the device " + uuid, Holder: kernelHolder(f)}, f.Close())
		}
		_ = f.Close()
	}

	dir, shared, err := UserTempDir()
	if err != nil {
		return nil, err
	}
	if shared {
		return nil, fmt.Errorf("the folder for temporary files of this user in %s belongs to another user", dir)
	}
	return lockInFolder(filepath.Join(dir, "devices"), uuid, me)
}

// kernelFile returns the path of the file that stands for a device, or "" if there is none.
func kernelFile(uuid string) string {
	if uuid == Processor {
		return processorFile
	}

	files, _ := filepath.Glob(gpuFiles)
	for _, path := range files {
		data, _ := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			if name, value, _ := strings.Cut(line, ":"); name == "GPU UUID" && strings.TrimSpace(value) == uuid {
				return path
			}
		}
	}
	return ""
}

// lockInFolder locks a device by a file in a folder, which it creates.
func lockInFolder(dir, uuid string, me Holder) (*Device, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, Explain("make", dir, err)
	}

	path := filepath.Join(dir, PlainName(uuid, "-.")+".lock")

	f, err := lockFile(path, "the device "+uuid, me, nil)
	if err != nil {
		return nil, err
	}
	socket, err := bindName(path)
	if err != nil {
		return nil, errors.Join(&BusyError{What: "the device " + uuid}, release(f))
	}
	return &Device{file: f, name: socket}, nil
}

// bindName binds an abstract socket for a lock file. It retries for 100 ms, since a forked
// child of the last holder may have the socket until it starts its own program.
func bindName(path string) (l net.Listener, err error) {
	sum := sha256.Sum256([]byte(path))
	for range 10 {
		if l, err = net.Listen("unix", fmt.Sprintf("@aicplan-device-%x", sum[:12])); err == nil {
			return l, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, err
}

// Release releases the device. A lock file in a folder stays: users find each other by it.
func (d *Device) Release() error {
	if d.name == nil {
		return release(d.file)
	}
	_ = d.file.Truncate(0) // an old holder would mislead; only the lock counts
	return errors.Join(d.name.Close(), release(d.file))
}
