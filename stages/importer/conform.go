package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// conform converts a file's rows to the description of its table as the catalog defines, and reports all
// differences.
func conform(path string, e tree.Entry, rec arrow.Record, o Options) (arrow.Record, []string, error) {
	c := &conformer{path: path, rec: rec, rows: table.Len(rec)}
	if err := c.texts(); err != nil {
		return nil, nil, err
	}

	t, ok := e.Lookup()
	if !ok || t.Identified() {
		c.provenance(e, o)
	}
	if !ok {
		c.note(0, "no perf table is called %q; its columns are taken as they are", e.Table)
		return c.rec, c.drift, nil
	}

	if err := c.headsOfRanks(t); err != nil {
		return nil, nil, err
	}

	for _, name := range t.Required() {
		if !table.Has(c.rec, name) {
			hint := spelt(name, table.Names(c.rec), ": its column is called %s, and names have one case only")
			return nil, nil, fmt.Errorf("%s lacks the column %s, which %s needs%s; it has %s", path, name, t.Name, hint,
				strings.Join(table.Names(c.rec), ", "))
		}
	}

	for _, name := range table.Names(c.rec) {
		col, known := t.Column(name)
		if !known {
			var names []string
			for _, col := range t.Columns("", true) {
				names = append(names, col.Name)
			}
			c.note(0, "the column %s is not one of %s%s; it is kept", name, t.Name,
				spelt(name, names, ", whose column is called %s"))
			continue
		}

		if err := c.convert(col); err != nil {
			return nil, nil, err
		}

		if arr, err := table.Array(c.rec, name); err == nil && arr.NullN() > 0 && slices.Contains(t.Required(), name) {
			c.note(arr.NullN(), "the column %s, which readers need, is empty", name)
		}

		c.words(name)
	}

	for _, name := range slices.Sorted(maps.Keys(tree.Defaults)) {
		if col, optional := t.Column(name); optional && !table.Has(c.rec, col.Name) {
			v := tree.Defaults[name]
			c.rec = table.WithColumn(c.rec, name, table.Constant(v, c.rows))
			c.note(c.rows, "the column %s is missing; %v is taken, as readers do", name, v)
		}
	}

	return c.rec, c.drift, nil
}

// mlaHeads is the number of query heads of the models in the oldest latent-attention tables. Those tables
// have the tensor-parallel ranks instead of the heads of one rank, and readers divide.
const mlaHeads = 128

func (c *conformer) headsOfRanks(t *catalog.Table) error {
	if t.Family != "mla" || table.Has(c.rec, "num_heads") || !table.Has(c.rec, "tp_size") {
		return nil
	}

	ranks, err := table.Int64s(c.rec, "tp_size")
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}

	heads := make([]int64, c.rows)
	for i, tp := range ranks.Values {
		if ranks.Null(i) || tp <= 0 || mlaHeads%tp != 0 {
			return fmt.Errorf("%s lacks the column num_heads, and in row %d it does not follow from tp_size %d", c.path, i+1, tp)
		}
		heads[i] = mlaHeads / tp
	}

	c.rec = table.WithColumn(c.rec, "num_heads", table.Ints(heads, nil))
	c.note(c.rows, "the column num_heads is missing; %d / tp_size is taken, as readers do", mlaHeads)
	return nil
}

// texts rejects names and values that terminals or spreadsheets would act on.
func (c *conformer) texts() error {
	err := rules.Texts(c.rec)
	if bad := (*rules.TextError)(nil); errors.As(err, &bad) && bad.Row >= 0 {
		return fmt.Errorf("%s: row %d: %w", c.path, bad.Row+1, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

// spelt returns a text about the name that differs from another one only by case, or "".
func spelt(name string, names []string, text string) string {
	for _, have := range names {
		if strings.EqualFold(have, name) {
			return fmt.Sprintf(text, have)
		}
	}
	return ""
}

type conformer struct {
	path  string
	rec   arrow.Record
	rows  int
	drift []string
}

// note records a difference. rows are the rows concerned, 0 if it is about the file.
func (c *conformer) note(rows int, format string, args ...any) {
	text := filepath.Base(c.path) + ": " + fmt.Sprintf(format, args...)
	if rows > 0 {
		text += fmt.Sprintf(" (%d rows)", rows)
	}
	c.drift = append(c.drift, text)
}

// provenance fills identity columns that the plan gives and compares the rows with their folders.
func (c *conformer) provenance(e tree.Entry, o Options) {
	for _, f := range []struct{ column, given string }{
		{"framework", o.Framework}, {"version", o.FrameworkVersion}, {"device", o.Device},
	} {
		if table.Has(c.rec, f.column) {
			continue
		}

		if f.given == "" {
			c.note(0, "the rows have no %s, and the import sets none", f.column)
			continue
		}

		c.rec = table.WithColumn(c.rec, f.column, table.Constant(f.given, c.rows))
		c.note(c.rows, "the rows have no %s; the import gives %q", f.column, f.given)
	}

	if e.Version == "" {
		return
	}

	col, err := table.Strings(c.rec, "version")
	if err != nil {
		return
	}

	other := map[string]int{}
	for _, v := range col.Values {
		if v != e.Version {
			other[v]++
		}
	}

	for _, v := range slices.Sorted(maps.Keys(other)) {
		text := fmt.Sprintf("the folder is of version %s, the rows are of %s", e.Version, cmp.Or(v, "no version"))
		if v != "" && other[v] == c.rows {
			// Readers take the folder that the system's spec names.
			text += fmt.Sprintf("; an export follows the rows to the folder %s, and version = %q in it keeps the folder",
				v, e.Version)
		}
		c.note(other[v], "%s", text)
	}
}

// convert converts a column to its type if no value is lost.
func (c *conformer) convert(want catalog.Column) error {
	before := c.rec.Column(table.Index(c.rec, want.Name))
	arr, err := rules.Convert(c.rec, want.Name, want.Type)
	if err != nil {
		return c.refuse(want, err)
	}

	c.rec = table.WithColumn(c.rec, want.Name, arr)
	if have := before.DataType(); have.ID() != arr.DataType().ID() && before.NullN() < before.Len() {
		c.note(c.rows, "%s is %s there and %s in the table; its values were converted without loss", want.Name,
			table.TypeName(have), want.Type)
	}
	return nil
}

// refuse returns the error of a column that cannot be converted. For text, it names the first value that is written
// neither as a number nor as true or false.
func (c *conformer) refuse(want catalog.Column, err error) error {
	if col, wordErr := table.Strings(c.rec, want.Name); wordErr == nil && want.Type.ID() != arrow.STRING {
		at := max(0, slices.IndexFunc(col.Values, func(v string) bool {
			return v != "" && !json.Valid([]byte(strings.ToLower(v)))
		}))
		err = fmt.Errorf("row %d has the text %q", at+1, col.Values[at])
	}
	return fmt.Errorf("%s: the column %s cannot be read as %s: %w", c.path, want.Name, want.Type, err)
}

// words translates former dtype words and reports words that readers do not know.
func (c *conformer) words(name string) {
	if catalog.Words(name) == nil && name != "distribution" {
		return
	}

	col, err := table.Strings(c.rec, name)
	if err != nil {
		return
	}

	counts := table.Counts(c.rec, name)
	renamed := map[string]string{}
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		switch now, err := catalog.Word(name, w); {
		case err != nil:
			c.note(counts[w], "%v; it is kept", err)
		case now != w:
			renamed[w] = now
			c.note(counts[w], "%s %q is called %q now", name, w, now)
		}
	}

	if len(renamed) == 0 {
		return
	}

	out := make([]string, col.Len())
	for i, w := range col.Values {
		out[i] = cmp.Or(renamed[w], w)
	}

	c.rec = table.WithColumn(c.rec, name, table.Texts(out, col.Valid))
}
