package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/diff"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

type diffCmd struct {
	A          string `arg:"" help:"A perf file, a folder of them, or a stage's address; STATE_DIR@ADDRESS for a stage of another state folder."`
	B          string `arg:"" optional:"" help:"What it is compared with; none where the flags choose both sides among the rows of A."`
	sideFlags  `embed:""`
	Table      string   `help:"Perf table, where the names do not say it." placeholder:"NAME"`
	Key        []string `help:"Columns that name a row; default: the table's." placeholder:"COLUMN"`
	Metric     string   `help:"Compared column; default: latency." placeholder:"COLUMN"`
	Tolerance  float64  `help:"How far a ratio may be from 1 before the row counts as changed." default:"0.01" placeholder:"SHARE"`
	On         []string `help:"Only rows with this value; values with | between them (repeatable)." placeholder:"COLUMN=VALUE" sep:"none"`
	By         []string `help:"Columns of the breakdown." placeholder:"COLUMN"`
	Worst      int      `help:"Rows to list of each kind." default:"20" placeholder:"N"`
	Format     string   `help:"table, json or markdown." enum:"table,json,markdown" default:"table"`
	JSON       bool     `name:"json" help:"Print as JSON."`
	MaxMedian  *float64 `help:"Exit 4 when a median ratio is further from 1." placeholder:"SHARE"`
	MinP5      *float64 `name:"min-p5" help:"Exit 4 when a 5th percentile of the ratio is below." placeholder:"RATIO"`
	MaxP95     *float64 `name:"max-p95" help:"Exit 4 when a 95th percentile of the ratio is above." placeholder:"RATIO"`
	MaxChanged *int     `help:"Exit 4 when more rows changed." placeholder:"N"`
	MaxRemoved *int     `help:"Exit 4 when B lacks more rows." placeholder:"N"`
	MaxAdded   *int     `help:"Exit 4 when A lacks more rows." placeholder:"N"`
}

// Help is what --help prints below the summary.
func (diffCmd) Help() string {
	return `Rows are matched by the key of their perf table, those of stages by the
parameters of their cases. -where, -where-b and -between choose the two sides
among the rows of one file or stage.

Examples:
  aicplan diff old/gemm_perf.txt new/gemm_perf.txt -max-median 0.02
  aicplan diff collect.gemm other/.aicplan@collect.gemm
  aicplan diff collect.gemm -between hostname`
}

// Run compares two files, folders or stages.
func (c *diffCmd) Run(a *app) error {
	limits := diff.Limits{Median: c.MaxMedian, P5: c.MinP5, P95: c.MaxP95, Changed: c.MaxChanged, Removed: c.MaxRemoved, Added: c.MaxAdded}
	if err := limits.Check(); err != nil {
		return err
	}
	if !(c.Tolerance >= 0) || math.IsInf(c.Tolerance, 0) {
		return fmt.Errorf("-tolerance is %v; give a share that is 0 or more, such as 0.01", c.Tolerance)
	}
	if _, known := catalog.Lookup(c.Table); c.Table != "" && !known {
		hint := ""
		if near := catalog.Suggest(c.Table); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return fmt.Errorf("there is no perf table %q%s; without -table the columns say how rows are told apart, or name them with -key", c.Table, hint)
	}
	on, err := selections(c.On)
	if err != nil {
		return err
	}
	o := diff.Options{Table: c.Table, Key: c.Key, Metric: c.Metric, Tolerance: c.Tolerance, On: on, Worst: c.Worst, By: c.By}
	rep, err := c.compare(a, o)
	if err != nil {
		return err
	}
	if c.JSON {
		c.Format = "json"
	}
	switch c.Format {
	case "json":
		err = rep.WriteJSON(a.stdout)
	case "markdown":
		err = rep.WriteMarkdown(a.stdout)
	default:
		err = rep.WriteText(a.stdout)
	}
	if err != nil {
		return err
	}
	beyond := rep.Exceeded(limits)
	for _, line := range beyond {
		fmt.Fprintf(a.stderr, "Beyond the limits: %s\n", line)
	}
	if len(beyond) > 0 {
		return &exitError{code: run.ExitGate, quiet: true}
	}
	return nil
}

// compare tells paths from stages: what exists on disk is a path.
func (c *diffCmd) compare(a *app, o diff.Options) (*diff.Report, error) {
	chooses := c.Where != "" || c.WhereB != "" || c.Between != ""
	if c.B == "" || chooses {
		if err := c.check(c.B); err != nil {
			return nil, err
		}
	}
	nameB := cmp.Or(c.B, c.A)
	_, errA := os.Stat(c.A)
	_, errB := os.Stat(nameB)
	if errA == nil && errB == nil && !chooses {
		return diff.Paths(c.A, c.B, o)
	}
	if c.Between != "" {
		return c.byValues(a, o)
	}
	left, right, err := c.sides(a, nameB)
	if err != nil {
		return nil, err
	}
	key, perf := c.caseKey(left.Dataset, right.Dataset), cmp.Or(left.Info.Perf, right.Info.Perf)
	o.Table = cmp.Or(o.Table, perf)
	if len(o.Key) == 0 {
		o.Key = key
	}
	res, err := diff.Tables(left.Table, right.Table, left.name, right.name, o)
	if err != nil {
		return nil, err
	}
	if (errA == nil) != (errB == nil) {
		res.Drift = nil // what a stage measured has more columns than a perf file
	}
	return &diff.Report{A: left.name, B: right.name, Tables: []*diff.Comparison{res}}, nil
}

// byValues compares the rows of one side with each other.
func (c *diffCmd) byValues(a *app, o diff.Options) (*diff.Report, error) {
	d, err := c.operand(a, c.A)
	if err != nil {
		return nil, err
	}
	o.Table = cmp.Or(o.Table, d.Info.Perf)
	if len(o.Key) == 0 {
		o.Key = c.caseKey(d.Dataset, d.Dataset)
	}
	name := c.A
	if c.Where != "" {
		if d.Table, _, err = where(d.Table, c.Where); err != nil {
			return nil, fmt.Errorf("%s: %w", c.A, err)
		}
		name += " where " + c.Where
	}
	return c.between(a, d.Dataset, name, o)
}

// sides reads both sides and chooses their rows.
func (c *diffCmd) sides(a *app, nameB string) (left, right *operand, err error) {
	if left, err = c.operand(a, c.A); err != nil {
		return nil, nil, err
	}
	right = left
	if nameB != c.A {
		if right, err = c.operand(a, nameB); err != nil {
			return nil, nil, err
		}
	}

	if right, err = c.chosen(right, nameB, cmp.Or(c.WhereB, c.Where)); err != nil {
		return nil, nil, err
	}
	left, err = c.chosen(left, c.A, c.Where)
	return left, right, err
}

// caseKey returns the columns that name a case of two stages: the parameters of
// their grids. It returns nil if a side lacks one of them; the key is then the
// perf table's, or is derived from the columns of a file.
func (c *diffCmd) caseKey(a, b *stage.Dataset) []string {
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

// operand is one side of a comparison.
type operand struct {
	*stage.Dataset
	name string // with the expression that chose its rows
}

// operand reads a perf file or the table of a stage.
func (c *diffCmd) operand(a *app, name string) (*operand, error) {
	if info, err := os.Stat(name); err == nil {
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder, and the other side is no file or folder that exists: compare it with a folder, or name one file of it to compare with a stage", name)
		}
		rec, err := tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return &operand{Dataset: &stage.Dataset{Table: rec}}, nil
	}
	dir, address, elsewhere := strings.Cut(name, "@")
	if !elsewhere {
		dir, address = a.global.StateDir, name
	}
	store, err := checkpoint.Open(dir, reading(true))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	rec, err := readStage(store, address)
	if errors.Is(err, checkpoint.ErrMissing) {
		return nil, fmt.Errorf("%s is neither a file nor a stage of %s.%s aicplan ckpt list shows the stages", name, store.Dir(), nearStage(store, address))
	}
	if err != nil {
		return nil, err
	}
	d, err := run.LoadDataset(store, rec)
	if err != nil {
		return nil, err
	}
	switch {
	case d.Table == nil && d.Ledger != nil:
		return nil, fmt.Errorf("%s measured nothing; aicplan show %s -ledger says why", name, address)
	case d.Table == nil:
		return nil, fmt.Errorf("%s has no table to compare; aicplan ckpt list shows the rows of each stage", name)
	}
	return &operand{Dataset: d}, nil
}

// selections reads COLUMN=VALUE|VALUE.
func selections(list []string) (map[string][]string, error) {
	out := map[string][]string{}
	for _, s := range list {
		column, values, ok := strings.Cut(s, "=")
		if !ok || column == "" {
			return nil, fmt.Errorf("-on %s: write COLUMN=VALUE", s)
		}
		out[column] = append(out[column], strings.Split(values, "|")...)
	}
	return out, nil
}
