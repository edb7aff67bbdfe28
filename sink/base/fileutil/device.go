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
	"time"
)

// DeviceDirVariable names the environment variable with the folder of device locks.
const DeviceDirVariable = "AICPLAN_LOCK_DIR"

// DefaultDeviceDir is the folder without the variable. All users of a machine share it, so
// that their runs do not measure on one device at the same time.
const DefaultDeviceDir = "/tmp/aicplan-locks"

// DeviceDir returns the folder of this machine's device locks.
func DeviceDir() string {
	if dir := os.Getenv(DeviceDirVariable); dir != "" {
		return dir
	}
	return DefaultDeviceDir
}

// Device is a locked device.
type Device struct {
	file *os.File
	// name is bound to an abstract socket. It keeps the device locked if a cleaner of
	// temporary files removes the lock file.
	name net.Listener
}

// LockDevice locks a device of this machine by its UUID. It returns a *BusyError at once if
// another process has it. The kernel ends the lock with the process.
func LockDevice(uuid string, me Holder) (*Device, error) {
	path, err := devicePath(uuid)
	if err != nil {
		return nil, err
	}

	f, err := lockFile(path, "the device "+uuid, me)
	if err != nil {
		return nil, err
	}
	name, err := bindName(path)
	if err != nil {
		return nil, errors.Join(&BusyError{What: "the device " + uuid, Path: path}, release(f))
	}
	return &Device{file: f, name: name}, nil
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

// Release releases the device. The file stays: users find each other by it.
func (d *Device) Release() error {
	_ = d.file.Truncate(0) // an old holder would mislead; only the lock counts
	return errors.Join(d.name.Close(), release(d.file))
}

func devicePath(uuid string) (string, error) {
	dir := DeviceDir()
	if err := os.Mkdir(dir, 0o777|fs.ModeSticky); err == nil {
		// The umask does not apply: every user locks here.
		if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
			return "", Explain("make", dir, err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return "", Explain("make", dir, err)
	}

	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, uuid)
	if name == "" {
		return "", fmt.Errorf("a device without a name cannot be locked")
	}
	return filepath.Join(dir, name+".lock"), nil
}
