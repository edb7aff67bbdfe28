package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
)

// subject is the data that one check judges.
type subject struct {
	ds        *stage.Dataset
	rec       arrow.Record // nil if there is no table
	reference *stage.Dataset
	parts     []*stage.Dataset
	keep      []bool // rows that "on" selects; nil means all
	selected  int
	on        []selection
	perCase   map[string]int // number of rows by case; computed on first use
	// object reads an attachment by its digest; nil without a state folder.
	object func(digest string) ([]byte, error)
	whole  *prepared
}

// prepared is all of a dataset prepared for the rules, which the checks of a gate share. It is computed on
// first use.
type prepared struct{ table *rules.Table }

// restrict limits the subject to the rows that match every selection.
func (s *subject) restrict(on []selection) error {
	s.on, s.selected = on, 0
	if s.rec == nil {
		return nil
	}

	s.selected = int(s.rec.NumRows())

	if len(on) == 0 {
		return nil
	}

	keep, err := matching(s.rec, on)
	if err != nil {
		return err
	}

	s.keep = keep
	s.selected = 0
	for _, k := range keep {
		if k {
			s.selected++
		}
	}

	return nil
}

// matching marks the rows of rec that match every selection.
func matching(rec arrow.Record, on []selection) ([]bool, error) {
	keep := make([]bool, rec.NumRows())
	for i := range keep {
		keep[i] = true
	}

	for _, sel := range on {
		col := column(rec, sel.Column)
		if col == nil {
			return nil, fmt.Errorf("\"on\" selects by the column %q, which the data lacks.%s", sel.Column,
				textutil.DidYouMean(sel.Column, columnNames(rec)))
		}
		for i := range keep {
			keep[i] = keep[i] && slices.Contains(sel.Values, table.Text(col, i))
		}
	}

	return keep, nil
}

func (s *subject) has(row int) bool { return s.keep == nil || s.keep[row] }

// key returns the columns that identify a row of the dataset.
func (s *subject) key() []string { return dedupe.KeyColumns(s.ds) }

// describe prints the row's case and the given columns. If the case has several rows, such as one with a
// CUDA graph and one without, it adds the columns of the key.
func (s *subject) describe(row int, extra ...string) string {
	cols := append([]string{}, s.ds.Info.Params...)
	if len(cols) == 0 || s.severalRows(row) {
		extra = append(s.key(), extra...)
	}

	for _, c := range extra {
		if !slices.Contains(cols, c) {
			cols = append(cols, c)
		}
	}

	return table.Describe(s.rec, row, cols)
}

// severalRows reports whether the row's case has other rows.
func (s *subject) severalRows(row int) bool {
	ids := column(s.rec, "case_id")
	if ids == nil || ids.IsNull(row) {
		return false
	}

	if s.perCase == nil {
		s.perCase = map[string]int{}
		for i := range ids.Len() {
			if !ids.IsNull(i) {
				s.perCase[table.Text(ids, i)]++
			}
		}
	}

	return s.perCase[table.Text(ids, row)] > 1
}

func column(rec arrow.Record, name string) arrow.Array {
	if rec == nil {
		return nil
	}

	at := rec.Schema().FieldIndices(name)
	if len(at) == 0 {
		return nil
	}
	return rec.Column(at[0])
}

func columnNames(rec arrow.Record) []string {
	var out []string
	if rec != nil {
		for _, f := range rec.Schema().Fields() {
			out = append(out, f.Name)
		}
	}
	return out
}

func missingColumn(rec arrow.Record, name string) error {
	return fmt.Errorf("the data has no column %q.%s", name, textutil.DidYouMean(name, columnNames(rec)))
}

// series is a numeric column as float64 values and null flags.
type series struct {
	val  []float64
	null []bool
}

// numbers reads a numeric or boolean column as float64; true is 1. Nulls have the value NaN.
func numbers(rec arrow.Record, name string) (series, error) {
	arr := column(rec, name)
	if arr == nil {
		return series{}, missingColumn(rec, name)
	}

	out := series{val: make([]float64, arr.Len()), null: make([]bool, arr.Len())}
	if flags, ok := arr.(*array.Boolean); ok {
		for i := range out.val {
			switch {
			case flags.IsNull(i):
				out.null[i], out.val[i] = true, math.NaN()
			case flags.Value(i):
				out.val[i] = 1
			}
		}

		return out, nil
	}

	col, err := table.Float64s(rec, name)
	if err != nil {
		return series{}, err
	}

	for i := range out.val {
		if col.Null(i) {
			out.null[i], out.val[i] = true, math.NaN()
			continue
		}
		out.val[i] = col.Values[i]
	}

	return out, nil
}

// metric returns the name of the primary metric of the table.
func (s *subject) metric() string {
	return dedupe.SchemaOf(s.ds).Primary().Name
}

// unfit returns the reason why row i is no measurement, or "". Zero is one only if zeroOK is set.
func (c series) unfit(name string, i int, zeroOK bool) string {
	if c.null[i] {
		return name + " is null"
	}
	return rules.Unusable(name, c.val[i], zeroOK)
}

// usable marks the rows of a dataset whose metric is a valid measurement.
func usable(ds *stage.Dataset, rec arrow.Record) ([]bool, error) {
	s := subject{ds: ds, rec: rec}
	name := s.metric()
	col, err := numbers(rec, name)
	if err != nil {
		return nil, err
	}

	t, ok := dedupe.PerfTable(ds)
	zero := ok && t.ZeroLegal // a table of differences

	out := make([]bool, len(col.val))
	for i := range out {
		out[i] = col.unfit(name, i, zero) == ""
	}
	return out, nil
}

// lackingKey returns an error if rec lacks a required column of the key.
func (s *subject) lackingKey(rec arrow.Record, whose string, key []string) error {
	for _, k := range key {
		if _, optional := tree.Defaults[k]; !optional && column(rec, k) == nil {
			return fmt.Errorf("%s lacks the column %s, which identifies rows", whose, k)
		}
	}
	return nil
}

// fullKey returns the columns that identify a row, even if the data lacks them: the required key of the
// perf table with its optional columns that are present, else the parameters of the cases, else every
// column that may be a parameter.
func (s *subject) fullKey() []string {
	key := s.key()
	t, ok := dedupe.PerfTable(s.ds)
	if !ok {
		return key
	}

	for _, k := range t.Key() {
		if c, _ := t.Column(k); c.Role != catalog.Optional && !slices.Contains(key, k) {
			key = append(key, k)
		}
	}

	return key
}

// offender is a row that breaks a limit; worse orders offenders.
type offender struct {
	row   int
	worse float64
	note  string
}

// worst describes the worst offenders. Ties keep the order of the list.
func (s *subject) worst(list []offender, columns ...string) []string {
	slices.SortStableFunc(list, func(a, b offender) int { return cmp.Compare(b.worse, a.worse) })
	var out []string
	for _, o := range list[:min(len(list), maxRows)] {
		text := s.describe(o.row, columns...)
		if o.note != "" {
			text += " " + o.note
		}
		out = append(out, text)
	}

	return out
}

// number formats a value for messages: integers in full, others with six digits.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }

// selection returns the selected rows as a record. rows maps its rows to those of the subject; it is nil
// if all rows are selected.
func (s *subject) selection() (arrow.Record, []int, error) {
	if s.keep == nil {
		return s.rec, nil, nil
	}

	rows := []int{}
	for i, k := range s.keep {
		if k {
			rows = append(rows, i)
		}
	}

	return table.Take(s.rec, rows), rows, nil
}

func original(rows []int, i int) int {
	if rows == nil {
		return i
	}
	return rows[i]
}

// round rounds to four significant digits for messages.
func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return v
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*digits) / digits
}
