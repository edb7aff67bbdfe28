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
		switch s.Instance.Kind.Name {
		case "export", "report":
			writes = writes || s.Action != stage.ActionReuse
		}
	}
	if !writes {
		return nil
	}
	if err := tryToWrite(dir); err != nil {
		return fmt.Errorf("exports cannot go to the output folder, so nothing was measured: %w", atomic.Explain("write in", dir, err))
	}
	return nil
}

func tryToWrite(dir string) (err error) {
	var made []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	defer func() {
		for _, d := range made {
			_ = os.Remove(d) // only while it is empty
		}
	}()
	f, err := os.CreateTemp(dir, ".aicplan-try-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
