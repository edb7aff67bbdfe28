package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"aicplan/cudaops/runbook"
	"aicplan/engine/run"
)

type docsCmd struct {
	Run docsRunCmd `cmd:"" help:"Run what pages say about servers, as a test of the pages."`
}

type docsRunCmd struct {
	Files         []string      `arg:"" name:"file" help:"Markdown pages, or folders of them."`
	DryRun        bool          `name:"dry-run" help:"Say what would be run; start nothing."`
	Servers       []string      `name:"server" placeholder:"NAME" help:"Only this server; may be repeated."`
	HealthTimeout time.Duration `name:"health-timeout" default:"15m" placeholder:"TIME" help:"How long a server may take until its health check passes."`
	JSON          bool          `name:"json" help:"Print the result as JSON; what the blocks print goes to standard error."`
}

// Help implements kong.HelpProvider.
func (c *docsRunCmd) Help() string {
	return `Pages mark blocks with comments:

  <!-- setup-NAME-endpoint-server -->          started in the background
  <!-- health-check-NAME-endpoint-server -->   repeated until it passes
  <!-- aiperf-run-NAME-endpoint-server -->     each is run, one after the other
  <!-- setup-file-NAME-endpoint-server path=FILE -->   is written to FILE first

All bash blocks up to the closing comment (with a slash in front) belong to it. What the set-up exports is there for
the others. At the end the processes and containers that were started are stopped, and nothing else.

  aicplan docs run --dry-run docs/
  aicplan docs run --server vllm docs/tutorial.md

Exit codes: 0 all servers passed, 1 the pages have mistakes or no server, 4 a server or run failed, 130 interrupted.`
}

// Run finds the servers of the pages and runs them.
func (c *docsRunCmd) Run(a *app) error {
	servers, err := runbook.Parse(c.Files)
	if err != nil {
		return err
	}

	if len(c.Servers) > 0 {
		var have []string
		for _, s := range servers {
			have = append(have, s.Name)
		}
		for _, name := range c.Servers {
			if !slices.Contains(have, name) {
				return fmt.Errorf("the pages have no server %q; they have %s", name, strings.Join(have, ", "))
			}
		}
		servers = slices.DeleteFunc(servers, func(s runbook.Server) bool { return !slices.Contains(c.Servers, s.Name) })
	}

	if len(servers) == 0 {
		return fmt.Errorf("no server is marked in %s; see aicplan docs run --help for the comments",
			strings.Join(c.Files, ", "))
	}

	if c.DryRun {
		return c.list(a, servers)
	}

	dir, err := os.Getwd()
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := runbook.Options{Dir: dir, Health: c.HealthTimeout, Run: time.Hour, Pause: 2 * time.Second, Out: a.stdout}
	if c.JSON {
		o.Out = a.stderr
	}

	var results []*runbook.ServerRun
	for _, s := range servers {
		if !c.JSON {
			fmt.Fprintf(a.stdout, "%s: set-up from %s\n", s.Name, s.Setup.Place)
		}

		r := runbook.Execute(ctx, s, o)
		results = append(results, r)
		if !r.OK() {
			a.code = run.ExitGate
		}

		if !c.JSON {
			c.say(a, r)
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

// say prints the result for a server.
func (c *docsRunCmd) say(a *app, r *runbook.ServerRun) {
	line := func(format string, args ...any) { fmt.Fprintf(a.stdout, r.Server+": "+format+"\n", args...) }
	switch {
	case r.Setup != "":
		line("FAILED: %s", r.Setup)
	case r.Health != "":
		line("FAILED: %s", r.Health)
	default:
		line("healthy after %d tries", r.Tries)
	}

	for _, x := range r.Runs {
		switch {
		case x.Error != "":
			line("FAILED: %s", x.Error)
		case x.Code != 0:
			line("FAILED: %s ended with exit code %d", x.Place, x.Code)
		default:
			line("passed: %s", x.Place)
		}
	}

	if len(r.Cleanup) > 0 {
		line("stopped %s", strings.Join(r.Cleanup, ", "))
	}
	if r.CleanupError != "" {
		line("FAILED to clean up: %s", r.CleanupError)
	}
}

// list prints what would be run.
func (c *docsRunCmd) list(a *app, servers []runbook.Server) error {
	if c.JSON {
		return a.json(servers)
	}

	for _, s := range servers {
		fmt.Fprintf(a.stdout, "%s\n", s.Name)
		blocks := slices.Concat(s.Files, []runbook.Block{*s.Setup, *s.Health}, s.Runs)
		for _, b := range blocks {
			fmt.Fprintf(a.stdout, "  %-12s  %s, %d blocks, %d lines\n", b.Kind, b.Place, b.Fences, 1+strings.Count(b.Text, "\n"))
		}
	}

	return nil
}
