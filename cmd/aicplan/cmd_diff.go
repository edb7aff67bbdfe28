package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"aicplan/engine/checkpoint"
	"aicplan/engine/run"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/diff"
	"aicplan/sink/phrase"
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
parameters of their cases. -where, -where-b, -between and -tries choose the two
sides among the rows of one file or stage.

Examples:
  aicplan diff old/gemm_perf.txt new/gemm_perf.txt -max-median 0.02
  aicplan diff collect.gemm other/.aicplan@collect.gemm
  aicplan diff collect.gemm -tries -between hostname`
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
	if c.B == "" && !c.Tries && !slices.ContainsFunc(rep.Tables, func(t *diff.Comparison) bool { return t.Common > 0 }) {
		if _, err := os.Stat(c.A); err != nil {
			fmt.Fprintln(a.stderr, "Note: a stage has the last measurement of each case; -tries compares every measurement that the journals have.")
		}
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
	chooses := c.Where != "" || c.WhereB != "" || c.Between != "" || c.Tries
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
	left, err := c.operand(a, c.A)
	if err != nil {
		return nil, err
	}
	right := left
	if nameB != c.A {
		if right, err = c.operand(a, nameB); err != nil {
			return nil, err
		}
	}
	o.Table = cmp.Or(o.Table, left.Info.Perf, right.Info.Perf)
	if len(o.Key) == 0 {
		o.Key = caseKey(left, right)
	}
	whereB := c.Where
	if c.WhereB != "" {
		whereB = c.WhereB
	}
	if c.Between != "" {
		name := c.A
		if c.Where != "" {
			if left.Table, _, err = where(left.Table, c.Where); err != nil {
				return nil, fmt.Errorf("%s: %w", c.A, err)
			}
			name += " where " + c.Where
		}
		return c.between(left, name, o)
	}
	left, nameA, err := c.chosen(left, c.A, c.Where)
	if err != nil {
		return nil, err
	}
	if right, nameB, err = c.chosen(right, nameB, whereB); err != nil {
		return nil, err
	}
	res, err := diff.Tables(left.Table, right.Table, nameA, nameB, o)
	if err != nil {
		return nil, err
	}
	if (errA == nil) != (errB == nil) {
		res.Drift = nil // what a stage measured has more columns than a perf file
	}
	return &diff.Report{A: nameA, B: nameB, Tables: []*diff.Comparison{res}}, nil
}

// caseKey is the columns that name a case of two stages: the parameters of their
// grids, and never what was measured besides. Nil leaves the key to the perf
// table or to the columns of a file.
func caseKey(a, b *stage.Dataset) []string {
	if len(a.Info.Params) == 0 && len(b.Info.Params) == 0 {
		return nil
	}
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

// operand reads a perf file or what a stage left.
func (c *diffCmd) operand(a *app, name string) (*stage.Dataset, error) {
	if info, err := os.Stat(name); err == nil {
		if c.Tries {
			return nil, fmt.Errorf("-tries: %s is a file, and only a collect has tries in the journals", name)
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder, and the other side is no file or folder that exists: compare it with a folder, or name one file of it to compare with a stage", name)
		}
		rec, err := tree.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return &stage.Dataset{Table: rec}, nil
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
	if d.Table == nil {
		return nil, fmt.Errorf("%s has no table", name)
	}
	if !c.Tries {
		return d, nil
	}
	var left int
	d, left, err = triesOf(store, d, c.needed(d))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if left > 0 {
		fmt.Fprintf(a.stderr, "Note: %s with several rows each are left out of the tries of %s.\n", phrase.Some(left, "case"), name)
	}
	return d, nil
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
