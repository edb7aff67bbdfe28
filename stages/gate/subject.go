package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

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
	ds      *stage.Dataset
	rec     arrow.Record     // nil if there is no table
	others  []*stage.Dataset // those that the check refers to
	perCase map[string]int   // number of rows by case; computed on first use
	// object reads an attachment by its digest.
	object func(digest string) ([]byte, error)
	shared *prepared
}

// prepared is a dataset prepared for the rules, which the checks of a gate share. It is computed on first use.
type prepared struct{ table *rules.Table }

// rows returns the number of rows to judge.
func (s *subject) rows() int { return table.Len(s.rec) }

// reference returns the table of the first other dataset, or nil if it has no table.
func (s *subject) reference() arrow.Record {
	if len(s.others) == 0 || s.others[0] == nil {
		return nil
	}
	return s.others[0].Table
}

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
	if s.perCase == nil {
		s.perCase = table.Counts(s.rec, "case_id")
	}
	return s.perCase[textOf(s.rec, "case_id", row)] > 1
}

func column(rec arrow.Record, name string) arrow.Array {
	if rec == nil {
		return nil
	}

	at := table.Index(rec, name)
	if at < 0 {
		return nil
	}
	return rec.Column(at)
}

func missingColumn(rec arrow.Record, name string) error {
	if rec == nil {
		return errNoRows
	}
	return fmt.Errorf("the data has no column %q.%s", name, textutil.DidYouMean(name, table.Names(rec)))
}

// numbers reads a column of numbers. Values at null rows are zero.
func numbers(rec arrow.Record, name string) (*table.Col[float64], error) {
	if column(rec, name) == nil {
		return nil, missingColumn(rec, name)
	}
	return table.Float64s(rec, name)
}

// metric returns the name of the primary metric of the table.
func (s *subject) metric() string {
	return dedupe.SchemaOf(s.ds).Primary().Name
}

// unfit returns the reason why row i is no measurement, or "". Zero is one only if zeroOK is set.
func unfit(c *table.Col[float64], i int, zeroOK bool) string {
	if c.Null(i) {
		return c.Name + " is null"
	}
	return rules.Unusable(c.Name, c.Values[i], zeroOK)
}

// usable marks the rows whose metric is a valid measurement.
func (s *subject) usable() ([]bool, error) {
	col, err := numbers(s.rec, s.metric())
	if err != nil {
		return nil, err
	}

	t, ok := dedupe.PerfTable(s.ds)
	zero := ok && t.ZeroLegal // a table of differences

	out := make([]bool, col.Len())
	for i := range out {
		out[i] = unfit(col, i, zero) == ""
	}
	return out, nil
}

// lackingKey returns an error if rec lacks a required column of the key.
func lackingKey(rec arrow.Record, whose string, key []string) error {
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

// worst describes the worst offences.
func (s *subject) worst(list []rules.Offence, columns ...string) []string {
	var out []string
	for _, o := range rules.Worst(list, maxRows) {
		text := s.describe(o.Row, columns...)
		if o.Note != "" {
			text += " " + o.Note
		}
		out = append(out, text)
	}

	return out
}

func number(v float64) string { return rules.Number(v, 6) }

func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 2, 64) + " %" }

// round rounds a positive number to four significant digits for messages.
func round(v float64) float64 {
	digits := math.Pow(10, 3-math.Floor(math.Log10(v)))
	return math.Round(v*digits) / digits
}
