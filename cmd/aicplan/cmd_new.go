package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aicplan/cudaops/pyhost"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
)

type newCmd struct {
	Op newOpCmd `cmd:"" help:"Write a Python op function and a plan that collects it."`
}

type newOpCmd struct {
	Name string `arg:"" help:"The op's name: lower-case letters, digits and _."`
	Dir  string `help:"Folder to write to; made when it is not there." default:"." placeholder:"DIR" type:"path"`
}

// Run writes NAME_op.py and NAME.hcl. It writes both or none and never overwrites a file.
func (c *newOpCmd) Run(a *app) error {
	s, err := pyhost.Skeleton(c.Name)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fileutil.Explain("create", shown(c.Dir), err)
	}

	plan := filepath.Join(c.Dir, s.Name+".hcl")
	files := []struct{ path, content string }{{filepath.Join(c.Dir, s.File), s.Python}, {plan, s.Plan}}
	for i, f := range files {
		if err := writeNew(f.path, f.content); err != nil {
			for _, done := range files[:i] {
				err = errors.Join(err, os.Remove(done.path))
			}
			return err
		}
	}

	fmt.Fprintf(a.stdout, `Wrote
  %s  the functions of both phases
  %s  its tables, grids, collect, verify, gate and export

The cases, without measuring:
  %s -v
Try it here, in plain Python:
  %s --var verify=true
Measure, on a machine with a GPU and torch:
  %[4]s --var package=torch
`, shown(files[0].path), shown(plan), a.command("plan", typed(plan)), a.command("apply", typed(plan)))

	return nil
}

// writeNew writes a file that must not exist yet.
func writeNew(path, content string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already and is left as it is: choose another name, or another --dir", shown(path))
		}
		return fileutil.Explain("write", shown(path), err)
	}

	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fileutil.Explain("write", shown(path), err), os.Remove(path))
	}

	return nil
}

// shown returns path relative to the working directory if it is below it.
func shown(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// typed returns a path as shown does, as one word of a command that the user can copy.
func typed(path string) string { return textutil.ShellWord(shown(path)) }
