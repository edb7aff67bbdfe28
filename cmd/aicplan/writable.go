package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"aicplan/engine/plan"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// writable returns an error if a stage will write exports and the output folder is not writable. Exports
// are written after all measuring, so this is checked first. It leaves no files.
func writable(p *plan.Plan, dir string) error {
	writes := false
	for _, s := range p.Stages {
		writes = writes || s.Instance.Kind.Class.Writes() && s.Action != stage.ActionReuse
	}

	if !writes {
		return nil
	}

	if err := tryToWrite(dir); err != nil {
		return fmt.Errorf("exports cannot go to the output folder, so nothing was measured: %w",
			fileutil.Explain("write in", dir, err))
	}

	return nil
}

// tryToWrite creates and removes a file in dir or, if dir does not exist, a folder in its nearest
// existing parent. It never creates dir, because removing it could break another aicplan that is about
// to write there.
func tryToWrite(dir string) error {
	if at := existing(dir); at != dir {
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

// existing returns dir, or its nearest parent that exists. A link to a missing folder exists, as it cannot be created.
func existing(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); err == nil || at == filepath.Dir(at) {
			return at
		}
	}
}

// fileOnTheWay returns the part of dir that is a file, or "" if dir exists or can be created.
func fileOnTheWay(dir string) string {
	at := existing(dir)
	if info, err := os.Stat(at); err == nil && !info.IsDir() {
		return at
	}
	return ""
}
