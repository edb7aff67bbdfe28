package main

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/engine/stage"
	"aicplan/sink/diff"
	"aicplan/sink/phrase"
	"aicplan/sink/table"
)

// sideFlags choose the two sides of a comparison among the rows of a stage.
type sideFlags struct {
	Where   string `help:"Only rows of which this HCL expression is true, of A and of B." placeholder:"EXPRESSION"`
	WhereB  string `name:"where-b" help:"The same for B alone; -where is then for A." placeholder:"EXPRESSION"`
	Between string `help:"Compare rows of A by the values of this column, each with the first one." placeholder:"COLUMN"`
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
	return &operand{&stage.Dataset{Info: side.Info, Table: rec}, name}, nil
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
	first := table.Take(d.Table, rows[order[0]])
	for _, value := range order[1:] {
		res, err := diff.Tables(first, table.Take(d.Table, rows[value]), side(order[0]), side(value), o)
		if err != nil {
			return nil, err
		}
		res.Named = true
		rep.Tables = append(rep.Tables, res)
	}
	return rep, nil
}
