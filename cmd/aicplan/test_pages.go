package main

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/runbook"
	"aicplan/engine/run"
)

// pages runs the servers that Markdown pages describe.
func (c *testCmd) pages(a *app) error {
	servers, err := runbook.Parse(c.Paths)
	if err != nil {
		return err
	}

	var names []string
	for _, s := range servers {
		names = append(names, s.Name)
	}
	servers = slices.DeleteFunc(servers, func(s runbook.Server) bool { return !c.selects(s.Name) })

	switch {
	case len(names) == 0:
		return fmt.Errorf("no server is marked in %s; see aicplan test --help for the comments", strings.Join(c.Paths, ", "))
	case len(servers) == 0:
		return fmt.Errorf("--filter %s selects no server; the pages have %s", strings.Join(c.Filter, " "),
			strings.Join(names, ", "))
	case c.DryRun && c.JSON:
		return a.json(servers)
	}

	dir, err := os.Getwd()
	if err != nil {
		return err
	}

	ctx, stop := untilSignal()
	defer stop()
	o := runbook.Options{Dir: dir, Health: c.HealthTimeout, Run: time.Hour, Pause: 2 * time.Second, Out: a.stdout}
	if c.JSON {
		o.Out = a.stderr
	}

	var results []*runbook.ServerRun
	for _, s := range servers {
		if c.DryRun {
			fmt.Fprintf(a.stdout, "%s\n", s.Name)
			for _, b := range s.Blocks() {
				fmt.Fprintf(a.stdout, "  %-12s  %s, %d blocks, %d lines\n", b.Kind, b.Place, b.Fences,
					1+strings.Count(b.Text, "\n"))
			}
			continue
		}

		r := runbook.Execute(ctx, s, o)
		results = append(results, r)
		if !r.OK() {
			a.code = run.ExitGate
		}

		if !c.JSON {
			for _, line := range r.Lines() {
				fmt.Fprintf(a.stdout, "%s: %s\n", r.Server, line)
			}
		}

		if ctx.Err() != nil {
			a.code = run.ExitInterrupted
			break
		}
	}

	if c.JSON {
		return a.json(results)
	}
	return nil
}

// selects reports whether --filter selects one of names.
func (c *testCmd) selects(names ...string) bool {
	for _, glob := range c.Filter {
		for _, name := range names {
			if ok, err := path.Match(glob, name); ok && err == nil {
				return true
			}
		}
	}
	return len(c.Filter) == 0
}
