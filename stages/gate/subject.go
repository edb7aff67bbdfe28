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
	"aicplan/sink/catalog"
	"aicplan/sink/phrase"
	"aicplan/sink/rowkey"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
)

// subject is what a check judges.
type subject struct {
	ds        *stage.Dataset
	rec       arrow.Record // nil when there is no table
	reference *stage.Dataset
	parts     []*stage.Dataset
	keep      []bool // rows that "on" selects; nil means all
	selected  int
	on        []selection
	perCase   map[string]int // rows of each case; nil until they are asked for
	// object reads an attachment by its digest; nil where there is no state folder.
	object func(digest string) ([]byte, error)
}

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
			return nil, fmt.Errorf("\"on\" selects by the column %q, which the data lacks.%s", sel.Column, phrase.DidYouMean(sel.Column, columnNames(rec)))
		}
		for i := range keep {
			keep[i] = keep[i] && slices.Contains(sel.Values, rowkey.Text(col, i))
		}
	}
	return keep, nil
}

func (s *subject) has(row int) bool { return s.keep == nil || s.keep[row] }

// key is the columns that name a row of the dataset.
func (s *subject) key() []string { return dedupe.KeyColumns(s.ds) }

// describe prints the row's case and the columns given; of a case with several
// rows, such as one of a graph and one of eager calls, also what tells them apart.
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
	return rowkey.Describe(s.rec, row, cols)
}

// severalRows says whether the row's case has other rows, too.
func (s *subject) severalRows(row int) bool {
	ids := column(s.rec, "case_id")
	if ids == nil || ids.IsNull(row) {
		return false
	}
	if s.perCase == nil {
		s.perCase = map[string]int{}
		for i := range ids.Len() {
			if !ids.IsNull(i) {
				s.perCase[rowkey.Text(ids, i)]++
			}
		}
	}
	return s.perCase[rowkey.Text(ids, row)] > 1
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

// series is a numeric column as float64, with nulls marked.
type series struct {
	val  []float64
	null []bool
}

// numbers reads a column as float64: numbers as they are, true as 1. An error
// names what is wrong with the column.
func numbers(rec arrow.Record, name string) (series, error) {
	arr := column(rec, name)
	if arr == nil {
		return series{}, fmt.Errorf("the data has no column %q.%s", name, phrase.DidYouMean(name, columnNames(rec)))
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

// metric is the column that the rows were measured for.
func (s *subject) metric() string {
	return dedupe.SchemaOf(s.ds).Primary().Name
}

// unfit says what keeps row i of a measured column from being a measurement;
// "" when nothing does. Zero is one only in tables of differences.
func (c series) unfit(name string, i int, zeroOK bool) string {
	v := c.val[i]
	switch {
	case c.null[i]:
		return name + " is null"
	case math.IsNaN(v):
		return name + " is NaN"
	case math.IsInf(v, 0):
		return name + " is infinite"
	case v < 0:
		return name + " is negative"
	case v == 0 && !zeroOK:
		return name + " is zero"
	}
	return ""
}

// usable marks the rows of a dataset whose metric is a measurement.
func usable(ds *stage.Dataset, rec arrow.Record) ([]bool, error) {
	s := subject{ds: ds, rec: rec}
	name := s.metric()
	col, err := numbers(rec, name)
	if err != nil {
		return nil, err
	}
	out, zero := make([]bool, len(col.val)), zeroAllowed(ds)
	for i := range out {
		out[i] = col.unfit(name, i, zero) == ""
	}
	return out, nil
}

// lackingKey is the error of data without a column that tells its rows apart.
func (s *subject) lackingKey(rec arrow.Record, whose string, key []string) error {
	for _, k := range key {
		if _, optional := tree.Defaults[k]; !optional && column(rec, k) == nil {
			return fmt.Errorf("%s lacks the column %s, which tells rows apart", whose, k)
		}
	}
	return nil
}

// fullKey is the columns that name a row, whether the data has them or not:
// the required key of its perf table with the optional columns that it has,
// else the parameters of its cases, else every column that may be one.
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

// offender is a row that breaks a limit; worse is larger.
type offender struct {
	row   int
	worse float64
	note  string
}

// worst describes the worst offenders, ties in row order.
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

// number prints a value as people read it.
func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }

// selection is the selected rows as a record of their own; rows maps them to
// the subject's, nil when they are all.
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
	rec, err := rowkey.Plain(s.rec)
	if err != nil {
		return nil, nil, err
	}
	return table.Take(rec, rows), rows, nil
}

func original(rows []int, i int) int {
	if rows == nil {
		return i
	}
	return rows[i]
}
