package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

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
		out := s.Outcome
		if out == nil {
			out = &stage.Outcome{Status: s.Status, Message: s.Message}
		}
		finished = append(finished, stage.Finished{Address: s.Address, Kind: s.Kind, Class: s.Is.Class,
			Reused: s.Reused, Outcome: out, Seconds: s.Seconds})
	}
	return results.Of(finished)
}

// gateFiles are the files to which apply writes the results of checks.
type gateFiles struct {
	JUnit   string `name:"junit" help:"Write what gates and preflights found as JUnit XML." placeholder:"FILE" type:"path"`
	Results string `help:"Write what gates and preflights found as JSON." placeholder:"FILE" type:"path"`
	Summary string `help:"Write what gates and preflights found as Markdown." placeholder:"FILE" type:"path"`
}

// check returns an error if a file cannot be written because of a file or folder in its place. It is
// called before anything is measured.
func (g gateFiles) check() error {
	for _, f := range [][2]string{{"--junit", g.JUnit}, {"--results", g.Results}, {"--summary", g.Summary}} {
		if f[1] == "" {
			continue
		}
		if at := fileOnTheWay(filepath.Dir(f[1])); at != "" {
			return fmt.Errorf("%s cannot be written to %s: %s is a file", f[0], f[1], at)
		}
		if info, err := os.Stat(f[1]); err == nil && info.IsDir() {
			return fmt.Errorf("%s is to be written to %s, which is a folder", f[0], f[1])
		}
	}

	return nil
}

// write writes the files. In a GitHub Actions job it also writes annotations and a step summary, unless
// events is true because stdout contains events.
func (g gateFiles) write(a *app, r *run.Applied, events bool) error {
	groups := gateGroups(r)
	for _, f := range []struct {
		path  string
		write func(io.Writer, []results.Group) error
	}{{g.JUnit, results.WriteJUnit}, {g.Results, results.WriteJSON}, {g.Summary, results.WriteMarkdown}} {
		if f.path == "" {
			continue
		}
		if err := writeGroups(f.path, groups, f.write); err != nil {
			return fmt.Errorf("results of gates: %w", err)
		}
	}

	inside, summary := results.GitHub(os.Getenv)
	if !inside || events {
		return nil
	}

	if err := results.WriteAnnotations(a.stdout, groups, ""); err != nil {
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
