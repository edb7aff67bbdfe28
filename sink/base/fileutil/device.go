package fileutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// LockDevice locks a device of this machine by its UUID. It returns a *BusyError at once if another process
// has it. The kernel ends the lock with the process. A device without a file of the kernel is locked in the
// folder for temporary files of this user, against this user's processes.
func LockDevice(uuid string, me Holder) (*FileLock, error) {
	if uuid == "" {
		return nil, errors.New("a device without a name cannot be locked")
	}
	if dir := os.Getenv(DeviceDirVariable); dir != "" {
		return lockInFolder(dir, uuid, me)
	}

	if f, err := os.Open(kernelFile(uuid)); err == nil {
		switch err := tryLock(f); {
		case err == nil:
			return &FileLock{file: f}, nil
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

// lockInFolder locks a device by a file in a folder, which it creates. The file stays: users find each other by it.
func lockInFolder(dir, uuid string, me Holder) (*FileLock, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, Explain("make", dir, err)
	}
	return LockFile(filepath.Join(dir, PlainName(uuid, "-.")+".lock"), "the device "+uuid, me, nil)
}
