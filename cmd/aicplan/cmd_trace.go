package main

import (
	"fmt"
	"time"

	"aicplan/cudaops/trace"
	"aicplan/engine/run"
	"aicplan/sink/base/textutil"
)

type traceCmd struct {
	Files []string `arg:"" name:"file" help:"Traces, one for each rank or a merged one."`
	Top   int      `help:"Kernels to list by time." default:"10"`
	Steps int      `help:"Steps to list." default:"10"`
	JSON  bool     `name:"json" help:"Print as JSON, with times in nanoseconds."`
}

// Help is printed below the summary.
func (traceCmd) Help() string {
	return `Traces are Kineto or Chrome JSON (plain, gzip or zstd), or SQLite exports of nsys.

Examples:
  aicplan trace kineto_trace_0.json.gz
  aicplan trace --json traces/*.pt.trace.json.gz
  nsys export --type sqlite --output r.sqlite r.nsys-rep && aicplan trace r.sqlite

The exit code is 1 if a file cannot be read or has no kernels. The figures of
the other files are printed.`
}

// Run reads traces and prints the share of time spent in communication.
func (c *traceCmd) Run(a *app) error {
	results, failed := []*trace.Analysis{}, false
	for _, path := range c.Files {
		res, err := trace.Read(path, trace.Options{Top: c.Top})
		if err != nil {
			failed = true
			fmt.Fprintf(a.stderr, "Error: %v\n", err)
			continue
		}
		results = append(results, res...)
	}

	note := trace.Align(results)
	for _, r := range results {
		failed = failed || r.Error != ""
	}

	if c.JSON {
		if err := a.json(append([]*trace.Analysis{}, results...)); err != nil { // a list also without results
			return err
		}
	} else {
		for _, r := range results {
			c.view(a, r)
		}
	}

	if note != "" {
		fmt.Fprintf(a.stderr, "Warning: %s\n", note)
	}

	return exitIf(failed, run.ExitError)
}

func (c *traceCmd) view(a *app, r *trace.Analysis) {
	w := a.stdout
	fmt.Fprintf(w, "%s\n", r.File)
	if r.Warning != "" {
		fmt.Fprintf(w, "  Warning: %s.\n", r.Warning)
	}

	if r.Error != "" {
		fmt.Fprintf(w, "  No figures: %s\n\n", r.Error)
		return
	}

	fmt.Fprintf(w, "  %s, %d kernels, %d collectives\n", traceOrigin(r), r.Kernels, traceCalls(r))
	t := new(textutil.Table).Left("part").Right("time", "share").Left("meaning")
	row := func(name string, ns *int64, what string) {
		share := "-"
		if *r.SpanNs > 0 {
			share = fmt.Sprintf("%.2f %%", 100*float64(*ns)/float64(*r.SpanNs))
		}
		t.Row(name, ms(*ns), share, what)
	}

	row("span", r.SpanNs, "first kernel's start to last kernel's end")
	row("busy", r.BusyNs, "some kernel runs")
	row("compute", r.ComputeUnionNs, "a kernel that is no collective runs")
	row("comm", r.CommUnionNs, fmt.Sprintf("a collective runs (their times add up to %s)", ms(*r.CommSumNs)))
	row("overlap", r.OverlapNs, "of comm: compute runs at the same time")
	row("exposed", r.ExposedCommNs, "of comm: nothing else runs")
	row("idle", r.IdleNs, "no kernel runs")
	row("copies", r.CopyNs, "a copy or memset runs")
	if r.WaitNs != nil {
		row("waiting", r.WaitNs, "its collectives took longer than the quickest rank's")
	}

	a.indented(t)
	if r.SMCoverage != nil {
		fmt.Fprintf(w, "\n  SM coverage: %.1f %% of the SMs have a block of the running kernel\n", *r.SMCoverage)
	}
	if r.Imbalance != nil {
		fmt.Fprintf(w, "  load imbalance: the busiest rank is busy %.3f times as long as the least busy one\n", *r.Imbalance)
	}
	traceCollectives(a, r)
	c.steps(a, r)
	traceTop(a, r)
	fmt.Fprintln(w)
}

func traceOrigin(r *trace.Analysis) string {
	text := "rank unknown"
	switch {
	case r.Rank != nil && r.WorldSize != nil:
		text = fmt.Sprintf("rank %d of %d", *r.Rank, *r.WorldSize)
	case r.Rank != nil:
		text = fmt.Sprintf("rank %d", *r.Rank)
	}

	if r.Device != "" {
		text += ", device " + r.Device
	}
	if r.Meta.Device != "" {
		text += " (" + r.Meta.Device + ")"
	}

	return text
}

func traceCalls(r *trace.Analysis) (n int64) {
	for _, c := range r.Collectives {
		n += c.Count
	}
	return n
}

func traceCollectives(a *app, r *trace.Analysis) {
	if len(r.Collectives) == 0 {
		return
	}

	t := new(textutil.Table).Left("collective").Right("calls", "time", "bytes", "busbw p50")
	for _, c := range r.Collectives {
		bytes, bw := "unknown", "-"
		if c.Bytes != nil {
			bytes = fmt.Sprint(*c.Bytes)
		}
		if c.BusbwP50 != nil {
			bw = fmt.Sprintf(">= %.1f GB/s", *c.BusbwP50)
		}
		t.Row(c.Kind, c.Count, ms(c.SumNs), bytes, bw)
	}
	a.indented(t)

	rules := new(textutil.Table).Left("rule").Right("kernels", "of kernel time").Left("example")
	for _, s := range r.Rules {
		rules.Row(fmt.Sprintf("%s (%s)", s.Kind, s.Origin), s.Count, fmt.Sprintf("%.2f %%", s.SharePct),
			textutil.Clip(s.Example, 60))
	}
	a.indented(rules)
}

func (c *traceCmd) steps(a *app, r *trace.Analysis) {
	if r.Steps == 0 {
		return
	}

	fmt.Fprintf(a.stdout, "\n  %s, from %s\n", textutil.Counted(r.Steps, "step"), r.StepMark)
	t := new(textutil.Table).Left("step").Right("wall", "busy", "compute", "comm", "exposed", "bubble", "collectives")
	for _, s := range r.PerStep[:min(c.Steps, len(r.PerStep))] {
		t.Row(textutil.Clip(s.Name, 40), ms(s.WallNs), ms(s.BusyNs), ms(*s.ComputeUnionNs), ms(*s.CommUnionNs),
			ms(*s.ExposedCommNs), ms(s.BubbleNs), s.Collectives)
	}
	a.indented(t)

	if left := r.Steps - t.Len(); left > 0 && t.Len() == c.Steps {
		fmt.Fprintf(a.stdout, "  and %d more\n", left)
	}
}

func traceTop(a *app, r *trace.Analysis) {
	if len(r.Top) == 0 {
		return
	}
	t := new(textutil.Table).Right("time", "calls").Left("kind", "kernel")
	for _, k := range r.Top {
		t.Row(ms(k.SumNs), k.Count, k.Kind, textutil.Clip(k.Name, max(20, a.columns()-36)))
	}
	a.indented(t)
}

func ms(ns int64) string {
	return fmt.Sprintf("%.3f ms", float64(ns)/float64(time.Millisecond))
}
