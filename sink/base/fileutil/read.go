package fileutil

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The largest files that ReadFile and ReadText read.
const (
	maxFile = 4 << 30
	maxText = 64 << 20
)

// ReadFile reads a regular file of at most 4 GiB. Errors name the path and what to do.
func ReadFile(path string) ([]byte, error) { return read(path, maxFile) }

// ReadText is ReadFile for files that people write, such as plans and specs, of at most 64 MiB.
func ReadText(path string) ([]byte, error) { return read(path, maxText) }

func read(path string, limit int64) ([]byte, error) {
	data, err := readAtMost(path, limit)
	if err != nil {
		return nil, Explain("read", path, err)
	}
	return data, nil
}

func readAtMost(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d MiB", limit>>20)}
	}
	return data, err
}

// Open is os.Open for regular files, also behind a symbolic link. It rejects pipes and
// devices, because opening a pipe may block forever and a device may have no end.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}

	info, err := f.Stat()
	if err == nil {
		err = regular(info.Mode())
	}
	if err != nil {
		_ = f.Close()
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return f, nil
}

// regular returns an error that describes anything but a regular file.
func regular(mode fs.FileMode) error {
	what := "something else"
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return fmt.Errorf("it is %s, not a file", what)
}

// Glob returns the paths of the files in a folder that match a slash-separated pattern, sorted. Characters of the
// folder's path have no special meaning.
func Glob(dir, pattern string) ([]string, error) {
	found, err := fs.Glob(os.DirFS(dir), pattern)
	for i, name := range found {
		found[i] = filepath.Join(dir, name)
	}
	return found, err
}

// Explain wraps an error of the file system with the path and with what the user can do
// about it. errors.Is still finds err.
func Explain(doing, path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	cause := err
	switch {
	case errors.As(err, &pe):
		cause = pe.Err
	case errors.As(err, &le):
		cause = le.Err
	}

	reading := strings.HasPrefix(doing, "read") || strings.HasPrefix(doing, "look")
	hint := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		hint = ": free some space there and run the same command again"
	case errors.Is(err, syscall.EROFS):
		hint = ": choose a folder on a file system that is not read-only"
	case errors.Is(err, fs.ErrPermission) && reading:
		hint = ": its permissions do not let you read it"
	case errors.Is(err, fs.ErrPermission):
		hint = ": choose a folder that you may write to, or change its permissions"
	case errors.Is(err, fs.ErrNotExist) && !reading:
		hint = ": create the folder first"
	case errors.Is(err, syscall.ENOTDIR):
		hint = ": a part of the path is a file, not a folder"
	case errors.Is(err, syscall.EIO):
		hint = ": the disk reports a fault; check it before going on"
	}
	return fmt.Errorf("cannot %s %s%s: %w", doing, path, hint, shortError{cause, err})
}

// shortError prints the cause without the path, and unwraps to the whole error.
type shortError struct {
	error
	whole error
}

func (e shortError) Unwrap() error { return e.whole }
