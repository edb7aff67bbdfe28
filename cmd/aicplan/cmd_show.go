package main

import (
	"aicplan/sink/perf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/checkpoint"
	"aicplan/engine/config"
	"aicplan/engine/grid"
	"aicplan/engine/plan"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/stages/grids"
)

type showCmd struct {
	What     string `arg:"" help:"Address of a stage, such as collect.gemm, or a saved plan."`
	rowFlags `embed:""`
	Format   string `help:"table, csv, json (a line a row) or arrow." enum:",table,csv,json,arrow" default:""`
	JSON     bool   `name:"json" help:"As --format json."`
	Ledger   bool   `help:"The cases without a measurement instead of the rows."`
}

// Run prints the table of a stage in the state folder.
func (c *showCmd) Run(a *app) error {
	if plan.IsSaved(c.What) {
		s, err := plan.Open(c.What)
		if err != nil {
			return err
		}
		if c.JSON || c.Format == "json" {
			return a.json(s)
		}

		fmt.Fprint(a.stdout, view("saved", s))
		a.viewSummary(s.Summary, false)
		return nil
	}

	store, err := a.store()
	if err != nil {
		return err
	}

	d, err := storedStage(store, c.What)
	if err != nil {
		return err
	}

	t := d.Table
	if c.Ledger {
		t = d.Ledger
	}

	switch {
	case t == nil && c.Ledger:
		return fmt.Errorf("%s has no ledger: only a collect has cases that may fail", c.What)
	case t == nil && d.Ledger != nil:
		return fmt.Errorf("%s measured nothing; --ledger shows why", c.What)
	case t == nil:
		return fmt.Errorf("%s has no table", c.What)
	}

	all := t.NumRows()
	t, lacking, err := c.chosen(t)
	if err != nil {
		return err
	}

	if lacking > 0 {
		fmt.Fprintf(a.stderr, "Note: --where cannot judge %s, which lack a value that it needs.\n",
			textutil.Some(lacking, "row"))
	}

	switch {
	case c.JSON:
		c.Format = "json"
	case c.Format == "" && a.isTerminal(a.stdout):
		c.Format = "table"
	}

	if c.Format == "table" {
		if c.Limit == 0 {
			t = limited(t, mostShown)
		}
		return a.viewTable(t, d.Info, len(c.Columns) > 0, all)
	}

	return writeTable(a.stdout, t, c.Format)
}

// mostShown is the default maximum number of rows of a table for people.
const mostShown = 1000

// nothingOf returns the error for a stage without a record, with a suggestion.
func nothingOf(store *checkpoint.Store, what string) error {
	if info, err := os.Stat(what); err == nil && (info.IsDir() || strings.HasSuffix(what, ".hcl")) {
		return fmt.Errorf("%s is a plan: aicplan plan %s shows what it would do, aicplan show ADDRESS the table of one of "+
			"its stages",
			what, textutil.ShellWord(what))
	}
	if strings.HasSuffix(what, ".plan") || strings.ContainsRune(what, filepath.Separator) && !strings.Contains(what, "[") {
		return fmt.Errorf("there is no file %s, and no stage is called so; aicplan plan --out FILE saves a plan, aicplan "+
			"ckpt list shows the stages",
			what)
	}
	return fmt.Errorf("the state folder %s has no result of %s: apply its plan first, or again if it was interrupted.%s "+
		"aicplan ckpt list shows what is there (the cases of a grid: aicplan cases PLAN ADDRESS)",
		store.Dir, what, nearStage(store, what))
}

// nearStage returns a hint at the similar address among the stages with a record, or "".
func nearStage(store *checkpoint.Store, what string) string {
	all, err := store.Stages()
	if err != nil {
		return ""
	}

	near := make([]string, len(all))
	for i, r := range all {
		near[i] = r.Address
	}

	alike := sameWords(what, near)
	if len(alike) == 1 {
		return " Did you mean " + alike[0] + "?"
	}

	if len(alike) > 0 {
		near = alike
	}

	return stage.DidYouMean(what, near)
}

var addressWord = regexp.MustCompile(`[A-Za-z0-9_]+`)

// sameWords returns the addresses that contain every word of what. For example, collect.op["gemm"] may
// be module.measured["gemm"].collect.op.
func sameWords(what string, all []string) []string {
	var out []string
	words := addressWord.FindAllString(what, -1)
	for _, address := range all {
		have := addressWord.FindAllString(address, -1)
		if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(have, w) }) {
			out = append(out, address)
		}
	}
	return out
}

// again adds advice to the error of a damaged table or record.
func again(err error) error {
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return fmt.Errorf("%w; apply its plan: the stage runs again, and what was measured is taken from the journal", err)
	}
	return err
}

// storedStage returns the dataset of a stage in the state folder. The error for a missing stage contains
// a suggestion.
func storedStage(store *checkpoint.Store, address string) (*stage.Dataset, error) {
	rec, err := readStage(store, address)
	if errors.Is(err, checkpoint.ErrMissing) {
		return nil, nothingOf(store, address)
	}

	var d *stage.Dataset
	if err == nil {
		d, err = run.LoadDataset(store, rec)
	}
	return d, again(err)
}

// readStage reads the record at address. The modules may be omitted if the rest is unique.
func readStage(store *checkpoint.Store, address string) (*checkpoint.StageRecord, error) {
	rec, err := store.ReadStage(address)
	if !errors.Is(err, checkpoint.ErrMissing) {
		return rec, err
	}

	all, listErr := store.Stages()
	if listErr != nil {
		return nil, listErr
	}

	var found []*checkpoint.StageRecord
	for _, r := range all {
		if config.LocalAddress(r.Address) == address {
			found = append(found, r)
		}
	}

	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return nil, fmt.Errorf("%s could be %s or %s: give the whole address", address, found[0].Address, found[1].Address)
	}

	return nil, err
}

// writeTable prints a table in the given format.
func writeTable(w io.Writer, t arrow.Record, format string) error {
	switch format {
	case "arrow":
		data, err := table.EncodeIPC(t)
		if err != nil {
			return err
		}
		_, err = textutil.Raw(w).Write(data)
		return err
	case "json":
		return writeJSONLines(w, t)
	}

	return perf.WriteCSV(w, withoutFormulas(t))
}

type casesCmd struct {
	planFlags `embed:""`
	Address   string `arg:"" help:"Address of a grid, such as grid.gemm."`
	Format    string `help:"csv, json (a line a row) or arrow (IPC file)." enum:"csv,json,arrow" default:"csv"`
	JSON      bool   `name:"json" help:"As --format json."`
	CountOnly bool   `name:"count" help:"Print the number of cases only; with --points, of points."`
	Points    bool   `help:"One row for each point of a sweep, instead of a column sweep."`
	Limit     int    `help:"At most N cases." least:"1"`
}

// Run prints the cases of a grid.
func (c *casesCmd) Run(a *app) error {
	s, err := a.planStage(c.planFlags, c.Address, false)
	if err != nil {
		return err
	}

	if s.Plan == nil || s.Plan.Data == nil || s.Plan.Data.Planned == nil {
		return fmt.Errorf("%s is %s, not a grid: what stages measured is shown by aicplan show", c.Address,
			textutil.WithArticle(s.Instance.Kind.Name))
	}

	t := s.Plan.Data.Planned
	cases := grids.CasesOf(s.Plan)
	sweeps := cases != nil && cases.SweepColumns() != nil
	if c.Points && sweeps {
		t = cases.PointRecord()
	}

	if c.CountOnly {
		fmt.Fprintln(a.stdout, t.NumRows())
		return nil
	}

	t = limited(t, c.Limit)
	if c.JSON {
		c.Format = "json"
	}
	if sweeps && !c.Points {
		return writeTable(a.stdout, withSweeps(t, cases), c.Format)
	}

	return writeTable(a.stdout, t, c.Format)
}

// sweepColumn contains the points of a case as a JSON array.
const sweepColumn = "sweep"

// withSweeps adds a column with the points of each case before the status column.
func withSweeps(t arrow.Record, cases *grid.Cases) arrow.Record {
	texts := make([]string, t.NumRows())
	for i := range texts {
		texts[i] = string(cases.Sweep(i).JSON())
	}
	t = table.WithColumn(t, sweepColumn, table.Texts(texts, nil))
	if at := table.Index(t, "status"); at >= 0 {
		status := t.Column(at)
		t = table.WithColumn(table.Drop(t, "status"), "status", status)
	}
	return t
}

// limited returns the first n rows. Zero is no limit.
func limited(t arrow.Record, n int) arrow.Record {
	if n > 0 && int64(n) < t.NumRows() {
		return t.NewSlice(0, int64(n))
	}
	return t
}
