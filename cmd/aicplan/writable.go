package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/atomic"
)

// writable tries whether files can be made in the output folder, where a stage is
// going to make some: the exports come last, behind all the measuring. It leaves
// no trace.
func writable(p *plan.Plan, dir string) error {
	writes := false
	for _, s := range p.Stages {
		writes = writes || s.Instance.Kind.Writes && s.Action != stage.ActionReuse
	}
	if !writes {
		return nil
	}
	if err := tryToWrite(dir); err != nil {
		return fmt.Errorf("exports cannot go to the output folder, so nothing was measured: %w", atomic.Explain("write in", dir, err))
	}
	return nil
}

// tryToWrite makes a file in dir, or a folder in the nearest folder above that
// exists, and removes it. It never makes dir itself: to remove it again would pull
// it from under another aicplan that is about to write there.
func tryToWrite(dir string) error {
	at := dir
	for ; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		if _, err := os.Lstat(at); err == nil {
			return &fs.PathError{Op: "open", Path: at, Err: errors.New("it is a symbolic link to something that does not exist")}
		}
	}
	if at != dir {
		tmp, err := os.MkdirTemp(at, ".aicplan-try-*")
		if err != nil {
			return err
		}
		return os.Remove(tmp)
	}
	f, err := os.CreateTemp(dir, ".aicplan-try-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
