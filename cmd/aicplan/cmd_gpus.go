package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/telemetry"
	"aicplan/engine/run"
	"aicplan/sink/visible"
)

type gpusCmd struct {
	Endpoints []string      `arg:"" optional:"" name:"endpoint" help:"DCGM exporters, as HOST:PORT or URL. localhost:9400, localhost:9401 and this machine's GPUs (NVML) are looked at as well."`
	Defaults  bool          `help:"Look at localhost:9400, localhost:9401 and NVML." default:"true" negatable:""`
	Counters  string        `help:"Counter file of the exporter: FIELD, gauge or counter, help text." placeholder:"FILE" type:"path"`
	Interval  time.Duration `help:"Time between two looks, 10ms to 300s." default:"1s" placeholder:"TIME"`
	Once      bool          `help:"Print one table and end. What is no terminal gets one anyway."`
	JSON      bool          `name:"json" help:"Print as JSON, once."`
}

// Help is what --help prints below the summary.
func (gpusCmd) Help() string {
	return `Examples:
  aicplan gpus                        a live table of this machine's GPUs
  aicplan gpus node1:9400 node2:9400  of other nodes too

Exit code 1 when no source reports a GPU.`
}

// Run shows GPUs.
func (c *gpusCmd) Run(a *app) error {
	set := telemetry.Builtin()
	if c.Counters != "" {
		f, err := os.Open(c.Counters)
		if err != nil {
			return err
		}
		err = set.AddCSV(f, c.Counters)
		f.Close()
		if err != nil {
			return err
		}
	}
	if c.Interval < telemetry.MinInterval || c.Interval > telemetry.MaxInterval {
		return fmt.Errorf("-interval is %s; it is between %s and %s", c.Interval, telemetry.MinInterval, telemetry.MaxInterval)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defaults, named, err := c.sources(set)
	if err != nil {
		return err
	}
	begin := time.Now()
	rec := telemetry.Start(ctx, telemetry.Options{Set: set, Interval: c.Interval}, defaults, named)
	defer rec.Stop()
	live := !c.Once && !c.JSON && a.isTerminal(a.stdout)
	t := time.NewTicker(c.Interval)
	defer t.Stop()
	for lines := 0; ; {
		w := rec.Window(begin, time.Now())
		if c.JSON {
			return c.end(a, w, a.json(gpusJSON(w)))
		}
		var b strings.Builder
		c.table(&b, w)
		if lines > 0 {
			fmt.Fprintf(visible.Raw(a.stdout), "\x1b[%dA\x1b[J", lines)
		}
		if _, err := io.WriteString(a.stdout, b.String()); err != nil {
			return err
		}
		if !live {
			return c.end(a, w, nil)
		}
		lines = strings.Count(b.String(), "\n")
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		// The table shows the last minute at most.
		if from := time.Now().Add(-time.Minute); from.After(begin) {
			begin = from
			rec.Forget(from)
		}
	}
}

func (c *gpusCmd) end(a *app, w *telemetry.Window, err error) error {
	if err != nil || len(w.GPUs) > 0 {
		return err
	}
	fmt.Fprintln(a.stderr, "No source reports a GPU. Name a DCGM exporter as HOST:PORT, or run this where the NVIDIA driver is.")
	return &exitError{code: run.ExitError, quiet: true}
}

// sources are the defaults, NVML first, and those that the user named.
func (c *gpusCmd) sources(set *telemetry.Set) (defaults, named []telemetry.Source, err error) {
	var urls []string
	if c.Defaults {
		if api, err := nvml.Open(); err == nil {
			defaults = append(defaults, telemetry.NewNVML(api, hostname()))
		}
		urls = telemetry.DefaultEndpoints
	}
	all, err := telemetry.Endpoints(urls, c.Endpoints)
	if err != nil {
		return nil, nil, err
	}
	for i, u := range all {
		src, err := telemetry.NewExporter(u, set, nil)
		if err != nil {
			return nil, nil, err
		}
		if i < len(urls) {
			defaults = append(defaults, src)
		} else {
			named = append(named, src)
		}
	}
	return defaults, named, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

var gpuColumns = []struct{ head, metric, format string }{
	{"power", telemetry.Power, "%.0f W"}, {"util", telemetry.Utilization, "%.0f %%"}, {"memory", telemetry.MemoryUsed, "%.1f GB"},
	{"SM clock", telemetry.SMClock, "%.0f MHz"}, {"temp", telemetry.Temperature, "%.0f C"},
}

func (c *gpusCmd) table(w io.Writer, win *telemetry.Window) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "host\tGPU\tmodel")
	for _, col := range gpuColumns {
		fmt.Fprintf(t, "\t%s", col.head)
	}
	fmt.Fprintln(t, "\tenergy\tXID")
	for _, g := range win.GPUs {
		id := string(g.GPU.Index)
		if g.GPU.InstanceID != "" {
			id += "/" + g.GPU.InstanceID + " " + g.GPU.InstanceProfile
		}
		fmt.Fprintf(t, "%s\t%s\t%s", g.GPU.Hostname, id, g.GPU.Name)
		for _, col := range gpuColumns {
			text := "-"
			if s := g.Get(col.metric); s != nil && s.Last != nil {
				text = fmt.Sprintf(col.format, *s.Last)
			}
			fmt.Fprintf(t, "\t%s", text)
		}
		energy, xid := "-", "-"
		if s := g.Get(telemetry.Energy); s != nil && s.Delta != nil {
			energy = fmt.Sprintf("%.0f J", *s.Delta)
		}
		if s := g.Get(telemetry.XID); s != nil {
			xid = "none"
			if len(s.Codes) > 0 {
				xid = strings.Trim(fmt.Sprint(s.Codes), "[]")
			}
		}
		fmt.Fprintf(t, "\t%s\t%s\n", energy, xid)
	}
	t.Flush()
	for _, s := range win.Sources {
		if !s.OK || len(s.Errors) > 0 {
			for reason, n := range s.Errors {
				fmt.Fprintf(w, "%s: %s (%d times)\n", s.Name, reason, n)
			}
		}
	}
}

// gpusJSON is the last value of every metric of every device.
func gpusJSON(w *telemetry.Window) any {
	type metric struct {
		Value *float64 `json:"value"`
		Unit  string   `json:"unit"`
		Codes []int64  `json:"codes,omitempty"`
	}
	type device struct {
		telemetry.GPU
		Source  string            `json:"source"`
		Metrics map[string]metric `json:"metrics"`
	}
	out := struct {
		GPUs    []device           `json:"gpus"`
		Sources []telemetry.Status `json:"sources"`
	}{GPUs: []device{}, Sources: w.Sources}
	for _, g := range w.GPUs {
		d := device{GPU: g.GPU, Source: g.Source, Metrics: map[string]metric{}}
		for _, s := range g.Metrics {
			d.Metrics[s.Metric.Name] = metric{Value: s.Last, Unit: s.Metric.Unit, Codes: s.Codes}
		}
		out.GPUs = append(out.GPUs, d)
	}
	return out
}
