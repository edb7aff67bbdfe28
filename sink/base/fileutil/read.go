package fileutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrNotRegular is what errors.Is finds where a path is no plain file.
var ErrNotRegular = errors.New("not a file")

// ReadFile reads a plain file, also through a symbolic link. Pipes and devices
// are refused: opening a pipe waits for a writer that may never come, and a
// device may have no end.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, Explain("read", path, err)
	}
	if err := regular(info.Mode()); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Explain("read", path, err)
	}
	return data, nil
}

// regular says what is in the place of a plain file.
func regular(mode fs.FileMode) error {
	what := ""
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
	default:
		what = "something else"
	}
	return fmt.Errorf("it is %s, %w", what, ErrNotRegular)
}
