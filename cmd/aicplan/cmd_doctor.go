package main

import (
	"context"
	"fmt"
	"strings"

	"aicplan/cudaops/doctor"
	"aicplan/engine/run"
	"aicplan/stages/runtimes"
)

type doctorCmd struct {
	GPU     bool `name:"gpu" help:"Also check every op's numbers and the timers on the GPUs."`
	Verbose bool `short:"v" help:"List the places where missing libraries were searched."`
	JSON    bool `name:"json" help:"Print as JSON."`
}

// Run prints what this machine can measure.
func (c *doctorCmd) Run(a *app) error {
	o := doctor.Options{GPU: c.GPU}
	if c.GPU {
		release, err := a.holdDevices(runtimes.Devices)
		if err != nil {
			return err
		}
		defer release()
	}

	r := doctor.Examine(context.Background(), o)
	if c.JSON {
		if err := a.json(r); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		b.WriteString(r.Summary() + "\n")
		if len(r.GPUs) == 0 {
			b.WriteString(withoutGPU())
		}
		b.WriteString("\n")
		if err := r.Text(&b, c.Verbose); err != nil {
			return err
		}
		a.wrapLines(b.String())
	}

	if !r.OK() {
		return &exitError{code: run.ExitError, quiet: true}
	}

	return nil
}

// withoutGPU lists the runtimes that work on a machine without GPUs.
func withoutGPU() string {
	text := "Without a GPU it measures:\n"
	for _, k := range runtimes.Kinds() {
		about := k.About()
		if about.UsesGPUs && !about.OnProcessor {
			continue
		}
		text += fmt.Sprintf("  %-9s %s\n", about.Name, about.Summary)
	}
	return text + "  To begin with: aicplan apply plans/quickstart.hcl\n"
}
