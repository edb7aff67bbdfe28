package main

import (
	"fmt"
	"strings"

	"aicplan/engine/run"
	"aicplan/stages/runtimes"
)

// greet is what aicplan alone prints: what to begin with, on this machine.
func (a *app) greet() int {
	fmt.Fprintln(a.stdout, `aicplan collects GPU performance data from declarative plans. To begin with:

  aicplan plan plans/quickstart.hcl      what would be measured, and why; runs nothing
  aicplan apply plans/quickstart.hcl     measure, check, export to out/; goes on where it stopped
  aicplan show ADDRESS                   what was measured; aicplan failures: what was not`)
	if gpus := seen(); len(gpus) > 0 {
		fmt.Fprintf(a.stdout, `
This machine has %s. What they can do, and a plan for them that needs no framework:

  aicplan doctor
  aicplan apply plans/h200_cuda.hcl
`, strings.Join(gpus, ", "))
	}
	fmt.Fprintln(a.stdout, `
aicplan help lists all commands, aicplan help COMMAND explains one; docs/tutorial.md is a walk of 15 minutes.`)
	return run.ExitOK
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
