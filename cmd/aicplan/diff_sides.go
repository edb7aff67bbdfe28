package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/sink/diff"
	"aicplan/sink/phrase"
	"aicplan/sink/table"
	"aicplan/stages/collect"
)

// sideFlags choose the two sides of a comparison among the rows of a stage.
type sideFlags struct {
	Where   string `help:"Only rows of which this HCL expression is true, of A and of B." placeholder:"EXPRESSION"`
	WhereB  string `name:"where-b" help:"The same for B alone; -where is then for A." placeholder:"EXPRESSION"`
	Between string `help:"Compare rows of A by the values of this column, each with the first one." placeholder:"COLUMN"`
	Tries   bool   `help:"Every measurement that the journals have instead of the last of each case, with the columns try, at, version, device, device_uuid, worker and those of the environment."`
}

// check says what does not go together.
func (f *sideFlags) check(b string) error {
	switch {
	case f.Between != "" && b != "":
		return fmt.Errorf("-between compares rows of one side with each other: leave %s away, or -between", b)
	case f.Between != "" && f.WhereB != "":
		return fmt.Errorf("-between makes the sides itself: leave -where-b away; -where chooses rows of all")
	case b == "" && f.Between == "" && f.WhereB == "":
		return fmt.Errorf("there is nothing to compare with: name a second file, folder or stage, or choose the sides among the rows of one with -where and -where-b, or with -between COLUMN")
	}
	return nil
}

// chosen is the rows of one side.
func (f *sideFlags) chosen(side *operand, name, expr string) (*operand, error) {
	rec := side.Table
	var err error
	if expr != "" {
		if rec, _, err = where(rec, expr); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		name += " where " + expr
	}
	if rec, err = f.counted(rec); err != nil {
		return nil, err
	}
	return &operand{&stage.Dataset{Info: side.Info, Table: rec}, name, side.schema, side.part}, nil
}

// counted are the rows of a side that are compared: of several tries of a case
// the newest.
func (f *sideFlags) counted(rec arrow.Record) (arrow.Record, error) {
	if !f.Tries {
		return rec, nil
	}
	return newest(rec)
}

// mostSides is how many values -between compares.
const mostSides = 64

// between compares the rows of each value of a column with those of the first
// value.
func (c *diffCmd) between(a *app, d *stage.Dataset, name string, o diff.Options) (*diff.Report, error) {
	if err := hasColumn(d.Table, c.Between, "-between"); err != nil {
		return nil, err
	}
	at := table.Index(d.Table, c.Between)
	rows := map[string][]int{}
	var order []string
	unknown := 0
	for row := range int(d.Table.NumRows()) {
		v := table.Value(d.Table, at, row)
		if v == nil {
			unknown++ // nobody knows which side it is on
			continue
		}
		text := fmt.Sprint(v)
		if rows[text] == nil {
			order = append(order, text)
		}
		rows[text] = append(rows[text], row)
	}
	switch {
	case len(order) < 2:
		return nil, fmt.Errorf("-between %s: the rows of %s have %s, so there is nothing to compare with", c.Between, name, phrase.Some(len(order), "value"))
	case len(order) > mostSides:
		return nil, fmt.Errorf("-between %s: the rows of %s have %d values, and %d can be compared; choose among them with -where", c.Between, name, len(order), mostSides)
	}
	if unknown > 0 {
		fmt.Fprintf(a.stderr, "Note: %s of %s left out for want of a value of %s.\n", phrase.Some(unknown, "row"), name, c.Between)
	}
	o.Key = slices.DeleteFunc(slices.Clone(o.Key), func(k string) bool { return k == c.Between })
	side := func(value string) string { return fmt.Sprintf("%s %s", c.Between, value) }
	rep := &diff.Report{A: name + ", " + side(order[0]), B: name + ", " + side(strings.Join(order[1:], ", "))}
	first, err := c.counted(table.Take(d.Table, rows[order[0]]))
	if err != nil {
		return nil, err
	}
	for _, value := range order[1:] {
		other, err := c.counted(table.Take(d.Table, rows[value]))
		if err != nil {
			return nil, err
		}
		res, err := diff.Tables(first, other, side(order[0]), side(value), o)
		if err != nil {
			return nil, err
		}
		res.Named = true
		rep.Tables = append(rep.Tables, res)
	}
	return rep, nil
}

// triesOf is every measurement of a collect's cases that the journals have, in
// the order of time, with at least the named columns; all for none. Cases with
// several rows are left out, and counted.
func triesOf(store *checkpoint.Store, d *stage.Dataset, columns []string) (*collect.Tries, error) {
	if d.Info.Op == "" || d.Table == nil || !table.Has(d.Table, "case_id") {
		return nil, fmt.Errorf("-tries: it has no cases in the journals; name a collect")
	}
	cases := append([]string{"case_id"}, d.Info.Params...)
	t, err := table.Select(d.Table, slices.DeleteFunc(cases, func(name string) bool { return !table.Has(d.Table, name) })...)
	if err != nil {
		return nil, err
	}
	d = &stage.Dataset{Info: d.Info, Table: t} // the rest of it is large, and of no use here
	tries, err := collect.ReadTries(store, d, columns)
	if err != nil {
		return nil, err
	}
	if tries.Table == nil {
		return nil, fmt.Errorf("-tries: the journals have no measurement of its cases: they came from elsewhere, or ckpt gc has tidied them away")
	}
	for _, name := range columns {
		if !table.Has(tries.Table, name) && !slices.Contains(optionalColumns, name) { // what is compared then, or the message, depends on all columns
			return triesOf(store, d, nil)
		}
	}
	return tries, nil
}

// optionalColumns are shown of every side that has them; case_id tells the tries of
// a case from those of others.
var optionalColumns = []string{"case_id", "kernel_source", "framework", "version", "device"}

// needed are the columns of tries that a comparison with what was read before, if
// anything, looks at; none where all of them choose the key.
func (c *diffCmd) needed(d *stage.Dataset, other *operand) []string {
	key, perf := c.Key, cmp.Or(c.Table, d.Info.Perf)
	if other != nil {
		perf = cmp.Or(c.Table, other.Info.Perf, perf)
	}
	switch {
	case len(key) > 0:
	case other != nil && len(other.Info.Params) > 0:
		key = other.Info.Params
	default:
		key = d.Info.Params
	}
	if len(key) == 0 {
		return nil
	}
	metric := cmp.Or(c.Metric, catalog.SchemaOf(perf).Primary().Name)
	out := slices.Concat(optionalColumns, key, c.By, []string{metric})
	for _, on := range c.On {
		column, _, _ := strings.Cut(on, "=")
		out = append(out, column)
	}
	if c.Between != "" {
		out = append(out, c.Between)
	}
	return slices.Concat(out, columnsOf(c.Where), columnsOf(c.WhereB))
}

// newest keeps the last try of every case.
func newest(rec arrow.Record) (arrow.Record, error) {
	ids, err := table.Strings(rec, "case_id")
	if err != nil {
		return nil, err
	}
	later := make(map[string]bool, len(ids.Values))
	var rows []int
	for row, id := range slices.Backward(ids.Values) {
		if !later[id] {
			later[id] = true
			rows = append(rows, row)
		}
	}
	if len(rows) == len(ids.Values) {
		return rec, nil
	}
	slices.Reverse(rows)
	return table.Take(rec, rows), nil
}
