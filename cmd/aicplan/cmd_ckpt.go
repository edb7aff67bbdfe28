package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

type ckptCmd struct {
	List   ckptListCmd   `cmd:"" help:"List what stages left, and the journals of measured cases."`
	Verify ckptVerifyCmd `cmd:"" help:"Read everything and check it against its digests."`
	Import ckptImportCmd `cmd:"" help:"Put rows of perf files into the case cache."`
	Gc     ckptGcCmd     `cmd:"" help:"Remove objects and runs that nothing refers to."`
}

type ckptListCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run lists the stage records and journals.
func (c *ckptListCmd) Run(a *app, store *checkpoint.Store) error {
	l, err := store.List()
	if err != nil {
		return err
	}

	if c.JSON {
		return a.json(l)
	}

	if len(l.Stages) == 0 && len(l.Journals) == 0 {
		fmt.Fprintf(a.stdout, "%s contains nothing yet.\n", l.Dir)
		return nil
	}

	stages := new(textutil.Table).Left("stage", "status").Right("rows", "size").Left("key", "finished")
	for _, s := range l.Stages {
		var counts stage.Counts
		if err := json.Unmarshal(s.Record.Counts, &counts); err != nil {
			return fmt.Errorf("the record of %s: %w", s.Record.Address, err)
		}
		stages.Row(s.Record.Address, s.Record.Status, counts.Rows, bytesText(s.Bytes()), shortKey(s.Record.Key),
			dateText(s.Record.FinishedAt.Local(), time.Now()))
	}

	journals := new(textutil.Table).Left("measured cases of").Right("measured", "failed", "size")
	for _, j := range l.Journals {
		journals.Row(journalName(j.Context), j.Measured, j.Failed, bytesText(j.Bytes))
	}

	for _, t := range []*textutil.Table{stages, journals} {
		if t.Len() == 0 {
			continue
		}
		if err := a.table(t); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout)
	}

	fmt.Fprintf(a.stdout, "%s, %s; %s.\n", textutil.Some(l.Objects.Count, "object"), bytesText(l.Objects.Bytes),
		textutil.Some(len(l.Runs), "run"))

	return nil
}

// dateText formats a time like ls, with the year if it is long ago.
func dateText(t, now time.Time) string {
	if age := now.Sub(t); age > 180*24*time.Hour || age < -time.Hour {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

// journalName returns the op, framework, version and device of a journal.
func journalName(c checkpoint.ContextInfo) string {
	var ctx checkpoint.Context
	if err := json.Unmarshal(c.JSON, &ctx); err != nil {
		return c.Op
	}
	return strings.Join(strings.Fields(c.Op+" "+ctx.Framework+" "+ctx.Version+" "+ctx.Device), " ")
}

func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

type ckptVerifyCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run checks every object, record and journal.
func (c *ckptVerifyCmd) Run(a *app, store *checkpoint.Store) error {
	if err := store.Created(); err != nil {
		return err
	}
	rep, err := store.Verify(context.Background())
	if err != nil {
		return err
	}

	if c.JSON {
		if err := a.json(rep); err != nil {
			return err
		}
	} else {
		for _, p := range rep.Problems {
			fmt.Fprintf(a.stdout, "%s: %s; %s\n", p.Path, strings.TrimPrefix(p.Detail, p.Path+": "), a.here(p.Fix))
		}
		fmt.Fprintf(a.stdout, "Verified %s (%s), %s, %s with %d entries: %s.\n",
			textutil.Counted(rep.Objects.Count, "object"), bytesText(rep.Objects.Bytes), textutil.Counted(rep.Stages, "stage"),
			textutil.Counted(rep.Journals, "journal"), rep.Entries, problemsText(rep))
	}

	return exitIf(!rep.OK(), run.ExitError)
}

type ckptGcCmd struct {
	DryRun   bool `help:"Only list what would be removed."`
	KeepRuns int  `help:"Runs to keep." default:"20"`
	JSON     bool `name:"json" help:"Print as JSON."`
}

// Run removes unreferenced objects. A dry run takes no lock.
func (c *ckptGcCmd) Run(a *app, found *checkpoint.Store) error {
	if err := found.Created(); err != nil {
		return err
	}
	store, err := a.open(c.DryRun)
	if err != nil {
		return err
	}

	if !c.DryRun {
		lock, err := a.lock(store)
		if err != nil {
			return err
		}
		defer lock.Release()
	}

	rep, err := store.GC(context.Background(), checkpoint.GCOptions{DryRun: c.DryRun, KeepRuns: c.KeepRuns})
	if err != nil {
		return err
	}

	if c.JSON {
		return a.json(rep)
	}

	verb := "Removed"
	if c.DryRun {
		verb = "Would remove"
	}

	fmt.Fprintf(a.stdout, "%s %d files and folders, %s; %s rewritten.\n", verb, len(rep.Removed),
		bytesText(rep.Bytes), textutil.Counted(len(rep.Compacted), "journal"))

	return nil
}

// problemsText returns the number of problems. The exit code covers only those that lose data.
func problemsText(rep *checkpoint.VerifyReport) string {
	text := textutil.Counted(len(rep.Problems), "problem")
	if rep.OK() && len(rep.Problems) > 0 {
		text += ", no data is lost"
	}
	return text
}

// shortKey returns the start of a record's key, or "-" if no plan can reuse the record.
func shortKey(key string) string {
	key = strings.TrimPrefix(key, "sha256:")
	if key == "" {
		return "-"
	}
	return key[:min(8, len(key))]
}
