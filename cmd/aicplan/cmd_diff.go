package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/diff"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

type diffCmd struct {
	A          string   `arg:"" help:"A perf file, a folder of them, or a stage: ADDRESS or STATE_DIR@ADDRESS."`
	B          string   `arg:"" help:"The same."`
	Where      string   `help:"Only rows of which this HCL expression is true." placeholder:"EXPRESSION"`
	Table      string   `help:"Perf table, if the file names do not contain it." placeholder:"NAME"`
	Key        []string `help:"Columns that identify a row; default: those of the table." placeholder:"COLUMN"`
	Metric     string   `help:"Compared column; default: latency." placeholder:"COLUMN"`
	Tolerance  float64  `help:"Accepted difference of a row's ratio from 1." default:"0.01" placeholder:"SHARE"`
	By         []string `help:"Columns of the breakdown." placeholder:"COLUMN"`
	JSON       bool     `name:"json" help:"Print as JSON."`
	MaxMedian  *float64 `help:"Exit 4 if a median ratio differs from 1 by more." placeholder:"SHARE"`
	MaxP95     *float64 `name:"max-p95" help:"Exit 4 if a 95th percentile of the ratio is larger." placeholder:"RATIO"`
	MaxChanged *int     `help:"Exit 4 if more rows changed." placeholder:"N"`
	MaxRemoved *int     `help:"Exit 4 if B lacks more rows." placeholder:"N"`
	MaxAdded   *int     `help:"Exit 4 if A lacks more rows." placeholder:"N"`
}

// Help is printed below the summary.
func (diffCmd) Help() string {
	return `Rows are matched by the key of their perf table, those of stages by the
parameters of their cases.

Examples:
  aicplan diff old/gemm_perf.txt new/gemm_perf.txt --max-median 0.02
  aicplan diff collect.gemm other/.aicplan@collect.gemm`
}

// Run compares two files, folders or stages.
func (c *diffCmd) Run(a *app) error {
	limits := diff.Limits{Median: c.MaxMedian, P95: c.MaxP95, Changed: c.MaxChanged, Removed: c.MaxRemoved,
		Added: c.MaxAdded}

	if err := limits.Check(); err != nil {
		return err
	}

	if _, known := catalog.Lookup(c.Table); c.Table != "" && !known {
		hint := ""
		if near := catalog.Suggest(c.Table); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("there is no perf table %q%s; without --table, name the columns that identify a row with --key",
			c.Table, hint)
	}

	rep, err := c.compare(a, diff.Options{Table: c.Table, Key: c.Key, Metric: c.Metric, Tolerance: c.Tolerance, By: c.By})
	if err != nil {
		return err
	}

	if c.JSON {
		err = a.json(rep)
	} else {
		err = rep.WriteText(a.stdout)
	}

	if err != nil {
		return err
	}

	beyond := rep.Exceeded(limits)
	for _, line := range beyond {
		fmt.Fprintf(a.stderr, "Beyond the limits: %s\n", line)
	}

	return exitIf(len(beyond) > 0, run.ExitGate)
}

// compare compares paths if both exist, and datasets otherwise.
func (c *diffCmd) compare(a *app, o diff.Options) (*diff.Report, error) {
	_, errA := os.Stat(c.A)
	_, errB := os.Stat(c.B)
	if errA == nil && errB == nil && c.Where == "" {
		return diff.Paths(c.A, c.B, o)
	}

	left, err := c.side(a, c.A)
	if err != nil {
		return nil, err
	}

	right, err := c.side(a, c.B)
	if err != nil {
		return nil, err
	}

	o.Table = cmp.Or(o.Table, left.Info.Perf, right.Info.Perf)
	if len(o.Key) == 0 {
		o.Key = caseKey(left, right)
	}

	res, err := diff.Tables(left.Table, right.Table, c.A, c.B, o)
	if err != nil {
		return nil, err
	}

	if (errA == nil) != (errB == nil) {
		res.Drift = nil // a stage has more columns than a perf file
	}

	return &diff.Report{A: c.A, B: c.B, Tables: []*diff.Comparison{res}}, nil
}

// caseKey returns the parameters of the cases if both sides have them. Otherwise it returns nil, and the
// key of the perf table applies.
func caseKey(a, b *stage.Dataset) []string {
	key := a.Info.Params
	if len(key) == 0 {
		key = b.Info.Params
	}
	for _, k := range key {
		if !table.Has(a.Table, k) || !table.Has(b.Table, k) {
			return nil
		}
	}
	return key
}

// side returns a perf file or the table of a stage, filtered by --where.
func (c *diffCmd) side(a *app, name string) (*stage.Dataset, error) {
	d, err := c.dataset(a, name)
	if err != nil || c.Where == "" {
		return d, err
	}
	rows, _, err := where(d.Table, c.Where)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &stage.Dataset{Info: d.Info, Table: rows}, nil
}

func (c *diffCmd) dataset(a *app, name string) (*stage.Dataset, error) {
	info, err := os.Stat(name)
	if err == nil {
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder; compare it with a folder and without --where, or name one of its files",
				name)
		}

		rec, err := tree.ReadFile(name)
		if err != nil {
			return nil, err
		}

		t, _ := catalog.Lookup(name)
		d := &stage.Dataset{Table: rec}
		if t != nil {
			d.Info.Perf = t.Name
		}

		return d, nil
	}

	if errors.Is(err, fs.ErrPermission) {
		return nil, fileutil.Explain("read", name, err)
	}

	dir, address, elsewhere := strings.Cut(name, "@")
	if !elsewhere {
		dir, address = a.global.StateDir, name
	}

	opts := reading(true)
	opts.Foreign = elsewhere || a.global.ForeignState // rows of others are only compared
	store, err := checkpoint.Open(dir, opts)
	if err != nil {
		return nil, err
	}

	defer store.Close()
	rec, err := readStage(store, address)
	if errors.Is(err, checkpoint.ErrMissing) {
		return nil, fmt.Errorf("%s is neither a file nor a stage of %s.%s %s shows the stages",
			name, store.Dir, nearStage(store, address), a.inState(dir, "aicplan ckpt list"))
	}

	if err != nil {
		return nil, err
	}

	d, err := run.LoadDataset(store, rec)
	switch {
	case err != nil:
		return nil, err
	case d.Table == nil && d.Ledger != nil:
		return nil, fmt.Errorf("%s measured nothing; %s lists the reasons", name,
			a.inState(dir, "aicplan show "+textutil.ShellWord(address)+" --ledger"))
	case d.Table == nil:
		return nil, fmt.Errorf("%s has no table to compare; %s shows the rows of each stage", name,
			a.inState(dir, "aicplan ckpt list"))
	}

	return d, nil
}
