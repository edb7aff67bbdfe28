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

// DeviceDirVariable names the environment variable with the folder of the
// locks of devices.
const DeviceDirVariable = "AICPLAN_LOCK_DIR"

// DefaultDeviceDir is the folder without it. It is the same for every user, so
// that their runs see each other.
const DefaultDeviceDir = "/tmp/aicplan-locks"

// DeviceDir is where the locks of this machine's devices lie.
func DeviceDir() string {
	if dir := os.Getenv(DeviceDirVariable); dir != "" {
		return dir
	}
	return DefaultDeviceDir
}

// Device is a device while it is locked.
type Device struct {
	f *os.File
}

// LockDevice locks a device of this host, named by its UUID, or fails at once
// with a *BusyError. The lock is the kernel's and ends with the process. Files
// stay: they are how users find each other.
func LockDevice(uuid string, me Holder) (*Device, error) {
	path, err := devicePath(uuid)
	if err != nil {
		return nil, err
	}
	for {
		f, writable, err := openShared(path)
		if err != nil {
			return nil, Explain("lock the device "+uuid+" by", path, err)
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) {
			h, _ := readMark(f) // half written: the name of the holder is only for people
			f.Close()
			return nil, &BusyError{What: "the device " + uuid, Holder: h, Path: path}
		}
		if err != nil {
			f.Close()
			return nil, Explain("lock the device "+uuid+" by", path, err)
		}
		if !sameFile(f, path) {
			f.Close()
			continue // somebody cleaned the folder meanwhile
		}
		if writable {
			if err := writeMark(f, me); err != nil {
				f.Close()
				return nil, Explain("write", path, err)
			}
		}
		return &Device{f: f}, nil
	}
}

// release ends the lock of a file and closes it. Closing alone does not end it while
// a child that was forked meanwhile has the file, which is until it runs its own
// program.
func release(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing says what is wrong
	return f.Close()
}

// Release gives the device back.
func (d *Device) Release() error {
	// The mark of one who is gone would mislead; that it cannot be emptied harms
	// nothing, since the lock is what counts.
	_ = d.f.Truncate(0)
	return release(d.f)
}

func devicePath(uuid string) (string, error) {
	dir := DeviceDir()
	if err := os.Mkdir(dir, 0o777|fs.ModeSticky); err == nil {
		// What the umask took away is given back: every user locks here.
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

// openShared opens a lock file that other users lock as well. Kernels that
// protect sticky folders refuse O_CREAT on a file of somebody else, so creating
// and opening are two steps.
func openShared(path string) (f *os.File, writable bool, err error) {
	for range 100 {
		f, err = os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)
		if err == nil {
			return f, true, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
			return f, false, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o666)
		if err == nil {
			return f, true, f.Chmod(0o666)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}
	}
	return nil, false, err
}
