package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aicplan/cudaops/benchproto"
	"aicplan/cudaops/doctor"
	"aicplan/cudaops/ops"
	"aicplan/engine/run"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

type doctorCmd struct {
	GPU     bool   `name:"gpu" help:"Also check every op's numbers and the timers on the GPUs."`
	System  string `help:"System to judge rates by." placeholder:"NAME"`
	Devices []int  `help:"Device indices; default all." placeholder:"N"`
	Seed    uint64 `help:"Seed of the random operands." default:"1" placeholder:"N"`
	JSON    bool   `name:"json" help:"Print as JSON."`
}

// Run says what this machine can measure.
func (c *doctorCmd) Run(a *app) error {
	o := doctor.Options{GPU: c.GPU, Devices: c.Devices, Seed: c.Seed}
	if c.System != "" {
		spec, err := systems.Load(c.System)
		if err != nil {
			return err
		}
		o.Peaks = ops.PeaksOf(spec)
	}
	if c.GPU {
		release, err := a.holdDevices(runtimes.Devices, c.Devices...)
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
		if err := r.Text(&b); err != nil {
			return err
		}
		if len(r.GPUs) == 0 {
			b.WriteString(withoutGPU())
		}
		a.wrapLines(b.String())
	}
	if !r.OK() {
		return &exitError{code: run.ExitError, quiet: true}
	}
	return nil
}

// withoutGPU says what a machine without GPUs measures all the same.
func withoutGPU() string {
	text := "\nWithout a GPU this machine measures:\n"
	for _, k := range runtimes.Kinds() {
		if k.OnGPUs != nil && !k.OnProcessor {
			continue
		}
		text += fmt.Sprintf("  %-9s %s\n", k.Name, k.Summary)
	}
	return text + "  To begin with: aicplan apply plans/quickstart.hcl\n"
}

type benchProtocolCmd struct {
	Device int      `help:"Device index in PCI order." default:"0" placeholder:"N"`
	System string   `help:"System spec, for estimates." default:"h200_sxm" placeholder:"NAME"`
	Sample string   `help:"Shapes to measure." default:"by_latency" enum:"by_latency,by_rank"`
	Limit  int      `help:"At most N shapes, evenly over the sample." placeholder:"N"`
	Runs   int      `help:"Runs of each protocol, each in another order." default:"3" placeholder:"N"`
	Only   []string `help:"Of sustained, recovered, soaked, settled, reference; default all but settled (0.4 s a shape, the truth of sustained) and soaked." placeholder:"NAME"`
	Warmup float64  `help:"Also run the protocol soaked: sessions in which every case runs so long before it is timed." placeholder:"SECONDS"`
	Seed   uint64   `help:"Seed of the orders." default:"1" placeholder:"N"`
	JSON   bool     `name:"json" help:"Print as JSON."`
}

// Run compares the measurement protocols on this machine's GPU.
func (c *benchProtocolCmd) Run(a *app) error {
	shapes, err := benchproto.Sample(c.Sample)
	if err != nil {
		return err
	}
	for _, p := range c.Only {
		if !slices.Contains(benchproto.Protocols, p) {
			return fmt.Errorf("there is no protocol %q; there are %s", p, strings.Join(benchproto.Protocols, ", "))
		}
	}
	if slices.Contains(c.Only, benchproto.Soaked) && c.Warmup <= 0 {
		return errors.New("-only soaked needs -warmup: how long every case is to run before it is timed, such as -warmup 0.1")
	}
	release, err := a.holdDevices(runtimes.Devices, c.Device)
	if err != nil {
		return err
	}
	defer release()
	shapes = benchproto.Thin(shapes, c.Limit)
	rep, err := benchproto.Measure(context.Background(), benchproto.Options{
		Device: c.Device, System: c.System, Shapes: shapes, Runs: c.Runs, Seed: c.Seed, Only: c.Only, Warmup: c.Warmup,
		Progress: func(r benchproto.Run) { fmt.Fprintf(a.stderr, "%s run: %.1f s\n", r.Protocol, r.Seconds) },
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return a.json(rep)
	}
	return rep.Text(a.stdout)
}
