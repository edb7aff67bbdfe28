package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"aicplan/cudaops/benchproto"
	"aicplan/cudaops/ops"
	"aicplan/engine/run"
	"aicplan/stages/runtimes"
	"aicplan/systems"
)

type benchProtocolCmd struct {
	Device    int      `help:"Device index in PCI order." default:"0" placeholder:"N"`
	System    string   `help:"System spec, for estimates." default:"h200_sxm" placeholder:"NAME"`
	Sample    string   `help:"Shapes to measure." default:"by_latency" enum:"by_latency,by_rank"`
	Limit     int      `help:"At most N shapes, evenly over the sample." placeholder:"N"`
	Runs      int      `help:"Runs of each protocol, each in another order." default:"3" placeholder:"N"`
	Orders    int      `help:"Runs of the protocol settled, each in another order; their mean is the truth." default:"2" placeholder:"N"`
	Only      []string `help:"Of sustained, estimated (sustained without looking at how far each case lowers the clock at once), recovered, soaked, settled (0.4 s a shape: the truth of sustained), reference; default sustained, recovered, reference." placeholder:"NAME"`
	Warmup    float64  `help:"Also run the protocol soaked: sessions in which every case runs so long before it is timed." placeholder:"SECONDS"`
	Passes    int      `help:"Visits to every case, in place of the default of measure blocks." placeholder:"N"`
	MaxPasses int      `help:"Visits to a case whose visits disagree." placeholder:"N"`
	Tolerance float64  `name:"pass-tolerance" help:"How far visits may be apart that agree: 0.005 is 0.5 %." placeholder:"SHARE"`
	Captures  int      `help:"Capture the graphs of a case so often, from 1 to 4; otherwise once for every planned visit of sustained sessions, and once for others." placeholder:"N"`
	Seed      uint64   `help:"Seed of the orders." default:"1" placeholder:"N"`
	Trace     string   `help:"Write every visit with its blocks and clocks to a CSV file." placeholder:"FILE"`
	JSON      bool     `name:"json" help:"Print as JSON."`
}

// Run compares the measurement protocols on this machine's GPU. Interrupted, it
// reports the runs that are done.
func (c *benchProtocolCmd) Run(a *app) (err error) {
	shapes, err := benchproto.Sample(c.Sample)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	release, err := a.holdDevices(runtimes.Devices, c.Device)
	if err != nil {
		return err
	}
	defer release()
	o := benchproto.Options{
		Device: c.Device, System: c.System, Shapes: benchproto.Thin(shapes, c.Limit), Runs: c.Runs, Orders: c.Orders, Seed: c.Seed, Only: c.Only, Warmup: c.Warmup,
		Passes: c.Passes, MaxPasses: c.MaxPasses, PassTolerance: c.Tolerance, Captures: c.Captures,
		Progress: func(r benchproto.Run) { fmt.Fprintf(a.stderr, "%s run: %.1f s\n", r.Protocol, r.Seconds) },
	}
	if c.Trace != "" {
		f, e := os.Create(c.Trace)
		if e != nil {
			return e
		}
		w := benchproto.NewTraceWriter(f)
		o.Trace = w.Add
		defer func() { err = errors.Join(err, w.Flush(), f.Close()) }()
	}
	a.endPlanning() // a signal ends the measuring here, not the process
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rep, err := benchproto.Measure(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return &exitError{code: run.ExitInterrupted, quiet: true}
	case err != nil:
		return err
	}
	if c.JSON {
		err = a.json(rep)
	} else {
		err = rep.Text(a.stdout)
	}
	if err == nil && ctx.Err() != nil {
		fmt.Fprintf(a.stderr, "interrupted: the report has the %d runs that were done\n", len(rep.Runs))
		return &exitError{code: run.ExitInterrupted, quiet: true}
	}
	return err
}

// check refuses what no run could follow.
func (c *benchProtocolCmd) check() error {
	for _, p := range c.Only {
		if !slices.Contains(benchproto.Protocols, p) {
			return fmt.Errorf("there is no protocol %q; there are %s", p, strings.Join(benchproto.Protocols, ", "))
		}
	}
	if _, err := systems.Load(c.System); err != nil {
		return err
	}
	if c.Runs < 1 || c.Orders < 1 {
		return fmt.Errorf("-runs %d -orders %d: every protocol runs once at least", c.Runs, c.Orders)
	}
	if c.Limit < 0 {
		return fmt.Errorf("-limit is %d; it is a number of shapes from 1", c.Limit)
	}
	if c.Warmup < 0 || math.IsNaN(c.Warmup) || math.IsInf(c.Warmup, 0) {
		return fmt.Errorf("-warmup %v: it is a number of seconds above 0", c.Warmup)
	}
	if slices.Contains(c.Only, benchproto.Soaked) && c.Warmup <= 0 {
		return errors.New("-only soaked needs -warmup: how long every case is to run before it is timed, such as -warmup 0.1")
	}
	if c.Passes < 0 || c.MaxPasses < 0 || c.MaxPasses > 0 && c.MaxPasses < max(c.Passes, 1) {
		return fmt.Errorf("-passes %d -max-passes %d: a case has at least one visit, and at most as many as -max-passes", c.Passes, c.MaxPasses)
	}
	if c.Captures < 0 || c.Captures > ops.MaxCaptures {
		return fmt.Errorf("-captures %d: graphs are captured once at least, and %d times at most", c.Captures, ops.MaxCaptures)
	}
	if !(c.Tolerance >= 0 && c.Tolerance < 1) {
		return fmt.Errorf("-pass-tolerance %v: it is a share from 0 to below 1, such as 0.005", c.Tolerance)
	}
	return nil
}
