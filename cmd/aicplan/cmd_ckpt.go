package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/atomic"
	"aicplan/sink/filelock"
	"aicplan/sink/phrase"
)

type ckptCmd struct {
	List   ckptListCmd   `cmd:"" help:"List what stages left, and the journals of measured cases."`
	Show   ckptShowCmd   `cmd:"" help:"Print a stage's record: key, inputs, outputs."`
	Verify ckptVerifyCmd `cmd:"" help:"Read everything and check it against its digests."`
	Import ckptImportCmd `cmd:"" help:"Put rows of perf files into the case cache."`
	Rm     ckptRmCmd     `cmd:"" help:"Remove a stage's record."`
	Prune  ckptPruneCmd  `cmd:"" help:"Remove the records of stages that a plan has no more."`
	Gc     ckptGcCmd     `cmd:"" help:"Remove objects and runs that nothing refers to."`
}

type ckptListCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run lists the stage records and journals.
func (c *ckptListCmd) Run(a *app) error {
	store, err := a.open(true)
	if err != nil {
		return err
	}
	defer store.Close()
	l, err := store.List()
	if err != nil {
		return err
	}
	if c.JSON {
		return a.json(l)
	}
	if len(l.Stages) == 0 && len(l.Journals) == 0 {
		fmt.Fprintf(a.stdout, "%s holds nothing yet.\n", l.Dir)
		return nil
	}
	w := 20
	for _, s := range l.Stages {
		w = max(w, utf8.RuneCountInString(s.Record.Address))
	}
	if a.screen() > 0 {
		for _, j := range l.Journals {
			w = max(w, utf8.RuneCountInString(journalName(j.Context)))
		}
	}
	w = max(20, min(w, a.columns()-51))
	fmt.Fprintf(a.stdout, "%-*s %-8s %9s %9s %-8s %s\n", w, "stage", "status", "rows", "size", "key", "finished")
	for _, s := range l.Stages {
		var counts stage.Counts
		if err := json.Unmarshal(s.Record.Counts, &counts); err != nil {
			counts.Rows = 0 // an old record; the rest of the line still helps
		}
		fmt.Fprintf(a.stdout, "%-*s %-8s %9d %9s %-8s %s\n", w, phrase.ClipFront(s.Record.Address, w), s.Record.Status, counts.Rows,
			bytesText(s.Bytes()), shortKey(s.Record.Key), dateText(s.Record.FinishedAt.Local(), time.Now()))
	}
	if len(l.Journals) > 0 {
		fmt.Fprintf(a.stdout, "\n%-*s %9s %9s %9s\n", w, "measured cases of", "measured", "failed", "size")
	}
	for _, j := range l.Journals {
		fmt.Fprintf(a.stdout, "%-*s %9d %9d %9s\n", w, phrase.Clip(journalName(j.Context), w), j.Measured, j.Failed, bytesText(j.Bytes))
	}
	fmt.Fprintf(a.stdout, "\n%s, %s; %s.\n", phrase.Some(l.Objects.Count, "object"), bytesText(l.Objects.Bytes), phrase.Some(len(l.Runs), "run"))
	return nil
}

// dateText is a time as ls writes it: with the year where it is long ago.
func dateText(t, now time.Time) string {
	if age := now.Sub(t); age > 180*24*time.Hour || age < -time.Hour {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

// journalName tells journals of one op apart by what they were measured with.
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

type ckptShowCmd struct {
	Address string `arg:"" help:"Address of a stage."`
}

// Run prints one record as JSON.
func (c *ckptShowCmd) Run(a *app) error {
	store, err := a.open(true)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := readStage(store, c.Address)
	if err != nil {
		return noRecord(store, c.Address, err)
	}
	rec, err := store.Show(found.Address)
	if err != nil {
		return err
	}
	return a.json(rec)
}

// noRecord says what was likely meant by an address that has no record.
func noRecord(store *checkpoint.Store, address string, err error) error {
	if errors.Is(err, checkpoint.ErrMissing) {
		return fmt.Errorf("the state folder %s has no record of %s.%s aicplan ckpt list shows what is there", store.Dir(), address, nearStage(store, address))
	}
	return fmt.Errorf("%w; aicplan ckpt list shows what is there", err)
}

type ckptVerifyCmd struct {
	JSON bool `name:"json" help:"Print as JSON."`
}

// Run checks every object, record and journal.
func (c *ckptVerifyCmd) Run(a *app) error {
	store, err := a.open(true)
	if err != nil {
		return err
	}
	defer store.Close()
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
			fmt.Fprintf(a.stdout, "%s: %s; %s\n", p.Path, strings.TrimPrefix(p.Detail, p.Path+": "), p.Fix)
		}
		fmt.Fprintf(a.stdout, "Verified %s (%s), %s, %s with %d entries: %s.\n",
			phrase.Counted(rep.Objects.Count, "object"), bytesText(rep.Objects.Bytes), phrase.Counted(rep.Stages, "stage"),
			phrase.Counted(rep.Journals, "journal"), rep.Entries, problemsText(rep))
	}
	if !rep.OK() {
		return &exitError{code: run.ExitError, quiet: true}
	}
	return nil
}

type ckptRmCmd struct {
	Addresses []string `arg:"" help:"Addresses of stages."`
}

// Run removes records; measured cases stay in the journal.
func (c *ckptRmCmd) Run(a *app) error {
	store, release, err := a.openLocked()
	if err != nil {
		return err
	}
	defer release()
	all := a.stages()
	defer all.Close()
	for _, addr := range c.Addresses {
		what := ""
		found, err := readStage(store, addr)
		switch {
		case err == nil && all.Kinds()[found.Kind].Measures:
			addr, what = found.Address, "; its measured cases stay in the journal"
		case err == nil:
			addr = found.Address
		case !errors.Is(err, checkpoint.ErrCorrupt): // a damaged one goes by its address
			return noRecord(store, addr, err)
		}
		if err := store.RemoveStage(addr); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "Removed the record of %s%s.\n", addr, what)
	}
	return nil
}

type ckptGcCmd struct {
	DryRun   bool `help:"Only say what would go."`
	KeepRuns int  `help:"Runs to keep." default:"20" placeholder:"N"`
	JSON     bool `name:"json" help:"Print as JSON."`
}

// Validate is called by kong.
func (c *ckptGcCmd) Validate() error { return notNegative("-keep-runs", c.KeepRuns) }

// Run removes what nothing refers to. A dry run takes no lock.
func (c *ckptGcCmd) Run(a *app) error {
	var store *checkpoint.Store
	var release func()
	var err error
	if c.DryRun {
		if store, err = a.open(true); err == nil {
			defer store.Close()
		}
	} else if store, release, err = a.openLocked(); err == nil {
		defer release()
	}
	if err != nil {
		return err
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
	fmt.Fprintf(a.stdout, "%s %d files and folders, %s; %s rewritten.\n", verb, len(rep.Removed), bytesText(rep.Bytes), phrase.Counted(len(rep.Compacted), "journal"))
	return nil
}

// openLocked opens the state folder for a change.
func (a *app) openLocked() (*checkpoint.Store, func(), error) {
	store, err := a.open(false)
	if err != nil {
		return nil, nil, err
	}
	lock, err := a.lock(store)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, func() {
		if err := errors.Join(lock.Release(), store.Close()); err != nil {
			fmt.Fprintln(a.stderr, "Warning:", err)
		}
	}, nil
}

type unlockCmd struct {
	Folder string `arg:"" optional:"" help:"A folder of a database, or the mark in it that a message named; without it the state folder." type:"path"`
}

// Run removes the mark of a dead holder.
func (c *unlockCmd) Run(a *app) error {
	h, what := (*checkpoint.Holder)(nil), "the state folder"
	var err error
	if c.Folder != "" {
		what = c.Folder
		if err := c.lockable(); err != nil {
			return err
		}
		h, err = filelock.UnlockFolder(c.Folder)
	} else {
		h, err = a.unlockState()
	}
	if err != nil {
		return err
	}
	if h == nil {
		fmt.Fprintf(a.stdout, "Nobody holds %s.\n", what)
		return nil
	}
	fmt.Fprintf(a.stdout, "Removed the mark of %q (pid %d on %s).\n", h.Command, h.PID, h.Host)
	return nil
}

// lockable says what is wrong with a folder that cannot have a mark, so that nobody
// takes another one for free.
func (c *unlockCmd) lockable() error {
	folder := c.Folder
	if filepath.Base(folder) == filelock.FolderMark {
		folder = filepath.Dir(folder)
	}
	switch info, err := os.Stat(folder); {
	case err != nil:
		return atomic.Explain("unlock", folder, err)
	case !info.IsDir():
		return fmt.Errorf("%s is a file; name the folder that is marked as in use, or the mark %s in it", folder, filelock.FolderMark)
	}
	if _, err := os.Stat(filepath.Join(folder, "lock.json")); err == nil {
		return fmt.Errorf("%s is a state folder: aicplan -state-dir %s unlock", folder, folder)
	}
	return nil
}

func (a *app) unlockState() (*checkpoint.Holder, error) {
	store, err := a.open(false)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return store.Unlock()
}

// problemsText counts them. The exit code is about those that lose data.
func problemsText(rep *checkpoint.VerifyReport) string {
	text := phrase.Counted(len(rep.Problems), "problem")
	if rep.OK() && len(rep.Problems) > 0 {
		text += ", no data is lost"
	}
	return text
}

// shortKey is the beginning of a record's key; "-" for one that no plan reuses.
func shortKey(key string) string {
	key = strings.TrimPrefix(key, "sha256:")
	if key == "" {
		return "-"
	}
	return key[:min(8, len(key))]
}
