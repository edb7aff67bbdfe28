package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/sink/phrase"
	"aicplan/stages/report/history"
	"aicplan/stages/runtimes"
)

// greet is what aicplan alone prints: what to begin with, on this machine.
func (a *app) greet() int {
	text := a.lastRun()
	if text == "" {
		text = `aicplan collects GPU performance data from declarative plans. To begin with:

  aicplan plan plans/quickstart.hcl      what would be measured, and why; runs nothing
  aicplan apply plans/quickstart.hcl     measure, check, export to out/; goes on where it stopped
  aicplan show ADDRESS                   what was measured; aicplan failures: what was not
`
	}
	fmt.Fprintln(a.stdout, text)
	if gpus := seen(); len(gpus) > 0 {
		fmt.Fprintf(a.stdout, `This machine has %s. What they can do, and a plan for them that needs no framework:

  aicplan doctor
  aicplan apply plans/h200_cuda.hcl

`, strings.Join(gpus, ", "))
	}
	fmt.Fprintln(a.stdout, `aicplan help lists all commands, aicplan help COMMAND explains one; docs/tutorial.md is a walk of 15 minutes.`)
	return run.ExitOK
}

// lastRun is what aicplan alone prints where plans were applied: the last run, and
// what to do next; "" where there is none that can be read.
func (a *app) lastRun() string {
	dir := ".aicplan"
	for _, kv := range a.environ {
		if v, ok := strings.CutPrefix(kv, "AICPLAN_STATE_DIR="); ok && v != "" {
			dir = v
		}
	}
	store, err := checkpoint.Open(dir, reading(true))
	if err != nil {
		return ""
	}
	defer store.Close()
	last, err := store.LatestRun()
	if err != nil {
		return ""
	}
	past, err := history.Read(*last)
	if err != nil {
		return ""
	}
	how := "it has not ended: aicplan status says how far it is"
	if past.Ended {
		how = fmt.Sprintf("%s, exit code %d", phrase.Duration(past.Seconds), past.ExitCode)
	}
	path := past.Plan
	if here, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(near) {
			path = near
		}
	}
	lines := [][2]string{
		{"aicplan report", "how it went; -format html -out report.html for others"},
		{"aicplan failures", "what was not measured, and what to do about it"},
		{"aicplan serve", "runs on a live page"},
		{"aicplan plan " + path, "what a change of the plan would measure"},
	}
	for _, s := range past.Stages {
		if s.Is.Measures && s.Outcome != nil && s.Outcome.Counts.Measured+s.Outcome.Counts.Reused > 0 {
			lines = slices.Insert(lines, 1, [2]string{"aicplan show '" + s.Address + "'", "what was measured"})
			break
		}
	}
	wide := 0
	for _, l := range lines {
		wide = max(wide, min(len(l[0]), 50))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The last run here: %s at %s (%s).\n\n", path, past.Started.Local().Format("2006-01-02 15:04"), how)
	for _, l := range lines {
		fmt.Fprintf(&b, "  %-*s  %s\n", wide, l[0], l[1])
	}
	return b.String()
}

// seen names the NVIDIA GPUs that the kernel's driver shows.
func seen() []string {
	all, err := runtimes.Devices()
	if err != nil {
		return nil // doctor says why
	}
	var out []string
	for _, d := range all {
		out = append(out, d.Name)
	}
	return out
}

// usual takes the words that users of other tools try first: help, --version.
func usual(args []string) []string {
	switch {
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help")
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-V"):
		return []string{"version"}
	}
	return args
}
