package fileutil

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// readerPatience is how long a pipe's reader may take to open it.
var readerPatience = 5 * time.Second

// WriteNamed writes to a path that a user named. A regular file is replaced as by
// Write, and so is nothing. Anything else (a device, a pipe, what a symbolic link
// leads to) is written to as it is: it is never replaced.
func WriteNamed(path string, fill func(io.Writer) error) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() {
		_, err := Write(path, fill)
		return err
	}
	if err != nil {
		return Explain("write", path, err)
	}
	// A pipe that nobody reads would hold the command for ever.
	open := func() (*os.File, error) {
		return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
	}
	f, err := open()
	for at := time.Now(); errors.Is(err, syscall.ENXIO) && time.Since(at) < readerPatience; f, err = open() {
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("cannot write %s: no process reads from it", path)
	}
	if err != nil {
		return Explain("write", path, err)
	}
	buf := bufio.NewWriterSize(f, 1<<16)
	err = fill(buf)
	if ferr := buf.Flush(); err == nil && ferr != nil {
		err = Explain("write", path, ferr)
	}
	if cerr := f.Close(); err == nil && cerr != nil {
		err = Explain("write", path, cerr)
	}
	return err
}
