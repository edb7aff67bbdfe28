package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/stages/report"
	"aicplan/stages/report/live"
	"aicplan/stages/report/model"
)

type reportCmd struct {
	Run_   string `arg:"" optional:"" name:"run" default:"latest" help:"A run's id, its beginning, or latest."`
	Format string `help:"html, markdown or json." enum:"html,markdown,json" default:"markdown"`
	Out    string `help:"Write to a file instead of standard output." placeholder:"FILE" type:"path"`
	List   bool   `help:"List the runs instead."`
	JSON   bool   `name:"json" help:"As --format json; with --list the runs as JSON."`
}

// Run prints a report on a run of the state folder.
func (c *reportCmd) Run(a *app, store *checkpoint.Store) error {
	if c.JSON {
		c.Format = "json"
	}
	if c.List {
		return c.list(a, store)
	}

	r, err := c.report(a, store)
	if err != nil {
		return err
	}

	if c.Out == "" {
		return report.Write(a.stdout, c.Format, r)
	}
	if err := fileutil.WriteNamed(c.Out, func(w io.Writer) error { return report.Write(w, c.Format, r) }); err != nil {
		return err
	}

	info, err := os.Stat(c.Out)
	if err != nil {
		return err
	}

	a.printf("Wrote %s, %s: %s. %s\n", shown(c.Out), bytesText(info.Size()), r.Verdict.Word, r.Verdict.Text)
	return nil
}

func (c *reportCmd) report(a *app, store *checkpoint.Store) (*model.Report, error) {
	past, idle, err := c.past(store)
	if err != nil {
		return nil, err
	}

	in, err := past.Input(store, run.LoadShared(map[string]arrow.Record{}))
	if err != nil {
		return nil, err
	}

	if err := report.Read(store, &in); err != nil {
		fmt.Fprintf(a.stderr, "Not in the report: %v\n", err)
	}

	in.Run.IdleSince = idle
	return model.Build(in)
}

// past returns the run to report on: the named one, or the newest one that did something. The second
// result lists the runs since then that had nothing to do.
func (c *reportCmd) past(store *checkpoint.Store) (*report.Past, []string, error) {
	if c.Run_ == "" || c.Run_ == "latest" {
		return report.LastActive(store)
	}
	found, err := report.FindRun(store, c.Run_)
	if err != nil {
		return nil, nil, err
	}
	past, err := report.ReadRun(*found)
	return past, nil, err
}

func (c *reportCmd) list(a *app, store *checkpoint.Store) error {
	all, err := store.Runs()
	if err != nil {
		return err
	}

	lines := live.List(all, store.Abandoned, time.Now())
	if c.Format == "json" {
		return a.json(lines)
	}

	if len(all) == 0 {
		fmt.Fprintf(a.stdout, "%s has no run yet.\n", store.Dir)
		return nil
	}

	t := new(textutil.Table).Left("run", "started").Right("time", "exit").Left("plan")
	for _, l := range lines {
		code, seconds := "-", "" // still running, killed or unreadable
		if l.ExitCode != nil {
			code = fmt.Sprint(*l.ExitCode)
		}
		if l.Seconds != nil {
			seconds = textutil.Duration(*l.Seconds)
		}
		t.Row(l.Run, l.Started.Local().Format("2006-01-02 15:04"), seconds, code, shown(l.Plan))
	}

	return a.table(t)
}
