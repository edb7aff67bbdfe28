package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

// gateGroups returns the checks of a run, grouped by stage.
func gateGroups(r *run.Applied) []results.Group {
	var finished []stage.Finished
	for _, s := range r.Stages {
		finished = append(finished, s.Finished())
	}
	return results.Of(finished)
}

// gateFiles are the files to which apply writes the results of checks.
type gateFiles struct {
	JUnit   string `name:"junit" help:"Write what gates and preflights found as JUnit XML." placeholder:"FILE" type:"path"`
	Results string `help:"Write what gates and preflights found as JSON." placeholder:"FILE" type:"path"`
	Summary string `help:"Write what gates and preflights found as Markdown." placeholder:"FILE" type:"path"`
}

// gateFile is a file of a flag, and what writes it.
type gateFile struct {
	flag, path string
	write      func(io.Writer, []results.Group) error
}

// files returns the files of the flags that were given.
func (g gateFiles) files() []gateFile {
	return slices.DeleteFunc([]gateFile{{"--junit", g.JUnit, results.WriteJUnit},
		{"--results", g.Results, results.WriteJSON}, {"--summary", g.Summary, results.WriteMarkdown}},
		func(f gateFile) bool { return f.path == "" })
}

// check returns an error if a file cannot be written because of a file or folder in its place. It is
// called before anything is measured.
func (g gateFiles) check() error {
	for _, f := range g.files() {
		if at := fileOnTheWay(filepath.Dir(f.path)); at != "" {
			return fmt.Errorf("%s cannot be written to %s: %s is a file", f.flag, f.path, at)
		}
		if info, err := os.Stat(f.path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is to be written to %s, which is a folder", f.flag, f.path)
		}
	}

	return nil
}

// write writes the files, for a run of p. In a GitHub Actions job it also writes annotations and a step summary, unless
// events is true because stdout contains events.
func (g gateFiles) write(a *app, p *plan.Plan, r *run.Applied, events bool) error {
	groups := gateGroups(r)
	for _, group := range groups {
		for i := range group.Checks {
			fix := &group.Checks[i].Fix
			*fix = a.here(strings.ReplaceAll(*fix, applyPlan, a.applyCommand(p)))
		}
	}

	for _, f := range g.files() {
		if err := writeGroups(f.path, groups, f.write); err != nil {
			return fmt.Errorf("results of gates: %w", err)
		}
	}

	inside, summary := results.GitHub(os.Getenv)
	if !inside || events {
		return nil
	}

	if err := results.WriteAnnotations(a.stdout, groups); err != nil {
		return err
	}
	if summary != "" {
		return results.AppendSummary(summary, groups)
	}

	return nil
}

// writeGroups writes the results of checks to a file.
func writeGroups(path string, groups []results.Group, write func(io.Writer, []results.Group) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fileutil.Explain("make the folder of", path, err)
	}
	return fileutil.WriteNamed(path, func(w io.Writer) error { return write(&textutil.Writer{W: w}, groups) })
}
