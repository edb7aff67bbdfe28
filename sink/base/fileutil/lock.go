package fileutil

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// FolderLock is the name of the file that LockFolder locks.
const FolderLock = ".aicplan.lock"

// folderTimeout limits the wait for a folder. Writing into one takes seconds at most.
var folderTimeout = 5 * time.Minute

// poll is the retry interval for a lock in use.
const poll = 15 * time.Millisecond

// BusyError reports that another process has a lock. errors.Is finds ErrBusy in it.
type BusyError struct {
	What   string  // "the folder /data/h200_sxm", "the device GPU-..."
	Holder *Holder // nil if it could not be read
}

// ErrBusy is what errors.Is finds in a *BusyError.
var ErrBusy = errors.New("in use")

func (e *BusyError) Error() string {
	by := "another aicplan"
	if e.Holder != nil {
		by = e.Holder.String()
	}
	return fmt.Sprintf("%s is in use by %s: wait for it, or end it", e.What, by)
}

// Unwrap lets errors.Is find ErrBusy.
func (e *BusyError) Unwrap() error { return ErrBusy }

// inProcess serializes the goroutines of one process without polling.
var inProcess sync.Map

// LockFolder waits until no other process writes into dir, locks it and returns a function
// that releases it. It returns a *BusyError after five minutes. The kernel ends the lock of a
// killed process. A file system without locks does not keep processes apart.
func LockFolder(ctx context.Context, dir string, me Holder) (unlock func() error, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	m, _ := inProcess.LoadOrStore(dir, &sync.Mutex{})
	mu := m.(*sync.Mutex)
	mu.Lock()

	path := filepath.Join(dir, FolderLock)
	for start := time.Now(); ; {
		l, err := LockFile(path, "the folder "+dir, me, nil)
		if err == nil {
			return func() error {
				defer mu.Unlock()
				err := os.Remove(path)
				if errors.Is(err, fs.ErrNotExist) {
					err = nil // the folder is gone
				}
				return errors.Join(err, l.Release())
			}, nil
		}

		if !errors.Is(err, ErrBusy) || time.Since(start) > folderTimeout {
			mu.Unlock()
			return nil, err
		}
		select {
		case <-ctx.Done():
			mu.Unlock()
			return nil, ctx.Err()
		case <-time.After(poll):
		}
	}
}

// FileLock is a locked file.
type FileLock struct {
	file  *os.File
	named bool // the file names its holder
}

// Release removes the holder from the file and releases the lock.
func (l *FileLock) Release() error {
	var err error
	if l.named {
		err = l.file.Truncate(0)
	}
	return errors.Join(err, release(l.file))
}

// ReadHolder returns the holder that a lock file names, or nil if there is no such file or it was released.
func ReadHolder(path string) (*Holder, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, Explain("read", path, err)
	}
	defer f.Close()
	return readHolder(f)
}

// TryLock locks the file and unlocks it again. It returns nil if no process has locked it, ErrBusy if one has, and
// another error if the file cannot be locked.
func TryLock(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer release(f) //nolint:errcheck // nothing was written
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return err
	}
	return ErrBusy
}

// LockFile creates a lock file, locks it without waiting and writes me into it. It returns a *BusyError if
// another process has the lock. If the file names a holder that did not release it, replace, if not nil, decides
// whether its lock is replaced; locked is false if the file system has no locks. An error of replace is
// returned as it is.
func LockFile(path, what string, me Holder, replace func(old *Holder, locked bool) error) (*FileLock, error) {
	for {
		f, writable, err := openShared(path)
		if err != nil {
			return nil, Explain("lock "+what+" by", path, err)
		}

		old, _ := readHolder(f) // the holder may be writing it
		lockErr := tryLock(f)
		switch {
		case errors.Is(lockErr, syscall.EWOULDBLOCK):
			return nil, errors.Join(&BusyError{What: what, Holder: old}, f.Close())
		case lockErr != nil && !errors.Is(lockErr, errors.ErrUnsupported) && !errors.Is(lockErr, syscall.ENOLCK):
			return nil, errors.Join(Explain("lock "+what+" by", path, lockErr), f.Close())
		}
		if !sameFile(f, path) {
			_ = f.Close()
			continue // the last holder removed it
		}

		if old, _ = readHolder(f); old != nil && replace != nil {
			if err := replace(old, lockErr == nil); err != nil {
				_ = release(f)
				return nil, err
			}
		}

		if writable {
			if err := writeHolder(f, me); err != nil {
				return nil, errors.Join(Explain("write", path, err), f.Close())
			}
		}
		return &FileLock{f, writable}, nil
	}
}

// openShared opens a lock file that other users may lock as well. Kernels that protect
// sticky folders refuse O_CREAT on another user's file, so that creating and opening are
// two steps. It follows no link and does not block on a pipe.
func openShared(path string) (f *os.File, writable bool, err error) {
	const flags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	for range 100 {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|flags, 0o666)
		if err == nil {
			return f, true, f.Chmod(0o666)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}

		writable = true
		f, err = os.OpenFile(path, os.O_RDWR|flags, 0)
		if errors.Is(err, fs.ErrPermission) {
			writable = false
			f, err = os.OpenFile(path, os.O_RDONLY|flags, 0)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, false, err
		}

		info, err := f.Stat()
		if err == nil {
			err = regular(info.Mode())
		}
		if err != nil {
			return nil, false, errors.Join(err, f.Close())
		}
		return f, writable, nil
	}
	return nil, false, err
}

func tryLock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// release unlocks a file and closes it. Closing alone keeps the lock while a forked child,
// which has not started its own program yet, has the file open.
func release(f *os.File) error {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) // closing reports errors
	return f.Close()
}

func writeHolder(f *os.File, me Holder) error {
	data, err := json.MarshalIndent(me, "", "  ")
	if err != nil {
		return err
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = f.WriteAt(append(data, '\n'), 0)
	return err
}

func readHolder(f *os.File) (*Holder, error) {
	var h *Holder
	err := json.NewDecoder(io.NewSectionReader(f, 0, 1<<16)).Decode(&h)
	switch {
	case err == io.EOF: // released
		return nil, nil
	case err != nil:
		return nil, err
	}
	return h, nil
}

// sameFile reports whether path is the open file f.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}
