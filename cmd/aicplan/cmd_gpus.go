package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/nvml"
	"aicplan/cudaops/telemetry"
	"aicplan/engine/run"
	"aicplan/sink/base/textutil"
)

type gpusCmd struct {
	Endpoints []string `arg:"" optional:"" name:"endpoint" help:"DCGM exporters of other machines, as HOST:PORT or URL."`
	JSON      bool     `name:"json" help:"Print as JSON."`
}

// Help is printed below the summary.
func (gpusCmd) Help() string {
	return `GPUs are those of this machine (NVML), and those of the exporters at localhost:9400 and localhost:9401.

Examples:
  aicplan gpus                        this machine's GPUs
  aicplan gpus node1:9400 node2:9400  other nodes too

Exit code 1 if no source reports a GPU.`
}

// Run prints the state of the GPUs once.
func (c *gpusCmd) Run(a *app) error {
	ctx, stop := untilSignal()
	defer stop()
	set := telemetry.Builtin()
	defaults, named, err := c.sources(set)
	if err != nil {
		return err
	}

	begin := time.Now()
	rec := telemetry.Start(ctx, telemetry.Options{Set: set, Interval: time.Second}, defaults, named)
	defer rec.Stop()
	w := rec.Window(begin, time.Now())
	if c.JSON {
		err = a.json(gpusJSON(w))
	} else {
		err = a.gpusTable(w)
	}

	if err != nil || len(w.GPUs) > 0 {
		return err
	}

	fmt.Fprintln(a.stderr, "No source reports a GPU. Name a DCGM exporter as HOST:PORT, or run this on a machine with "+
		"the NVIDIA driver.")
	return exitError(run.ExitError)
}

// sources returns NVML with the default exporters, and the named exporters.
func (c *gpusCmd) sources(set *telemetry.Set) (defaults, named []telemetry.Source, err error) {
	if api, err := nvml.Open(); err == nil {
		host, err := os.Hostname()
		if err != nil {
			host = "localhost"
		}
		defaults = append(defaults, telemetry.NewNVML(api, host))
	}

	all, err := telemetry.Endpoints(telemetry.DefaultEndpoints, c.Endpoints)
	if err != nil {
		return nil, nil, err
	}

	for i, u := range all {
		src, err := telemetry.NewExporter(u, set)
		if err != nil {
			return nil, nil, err
		}
		if i < len(telemetry.DefaultEndpoints) {
			defaults = append(defaults, src)
		} else {
			named = append(named, src)
		}
	}

	return defaults, named, nil
}

var gpuColumns = []struct{ head, metric, format string }{
	{"power", telemetry.Power, "%.0f W"}, {"util", telemetry.Utilization, "%.0f %%"},
	{"memory", telemetry.MemoryUsed, "%.1f GB"},
	{"SM clock", telemetry.SMClock, "%.0f MHz"}, {"temp", telemetry.Temperature, "%.0f C"},
}

func (a *app) gpusTable(win *telemetry.Window) error {
	t := new(textutil.Table).Left("host", "GPU", "model")
	for _, col := range gpuColumns {
		t.Right(col.head)
	}
	t.Left("XID")

	for _, g := range win.GPUs {
		id := string(g.GPU.Index)
		if g.GPU.InstanceID != "" {
			id += "/" + g.GPU.InstanceID + " " + g.GPU.InstanceProfile
		}

		row := []any{g.GPU.Hostname, id, g.GPU.Name}
		for _, col := range gpuColumns {
			text := "-"
			if s := g.Get(col.metric); s != nil && s.Last != nil {
				text = fmt.Sprintf(col.format, *s.Last)
			}
			row = append(row, text)
		}

		xid := "-"
		if s := g.Get(telemetry.XID); s != nil {
			xid = "none"
			if len(s.Codes) > 0 {
				xid = strings.Trim(fmt.Sprint(s.Codes), "[]")
			}
		}

		t.Row(append(row, xid)...)
	}

	if err := a.table(t); err != nil {
		return err
	}

	for _, s := range win.Sources {
		for _, reason := range slices.Sorted(maps.Keys(s.Errors)) {
			fmt.Fprintf(a.stdout, "%s: %s (%d times)\n", s.Name, reason, s.Errors[reason])
		}
	}

	return nil
}

// gpusJSON returns the last value of every metric of every device.
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
