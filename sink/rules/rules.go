// Package rules judges the rows of perf tables. Gates, lint, exports and imports share these rules, so
// that all of them accept and reject the same rows. It also estimates the times that rows must have: the
// least time at a system's peaks (SpeedOfLight) and the usual time of a kernel (Likely).
package rules

import (
	"cmp"
	"embed"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
	"aicplan/systems"
)

// Source is the code of this package. Checkpoints of stages that use it become stale when it changes.
//
//go:embed *.go *.json
var Source embed.FS

// Table is a perf table to judge.
type Table struct {
	Rec  arrow.Record
	Perf *catalog.Table // nil if the rows belong to no known perf table
	// Key lists the columns that identify a row and that Rec has.
	Key []string
	// Metric is the column that is judged, and Values its values: NaN if a row has none.
	Metric string
	Values []float64
	// System is the system that the rows were measured on; nil if unknown.
	System *systems.Spec
	// Framework chooses between the cost models of modules; "" takes any.
	Framework string

	columns map[string][]uint64 // hashes by name, computed when first needed
	sums    []uint64
}

// New prepares a table for the rules. An error means that the metric cannot be read as numbers. A nil key
// is the one that readers of perf use.
func New(rec arrow.Record, perf *catalog.Table, key []string) (*Table, error) {
	t := &Table{Rec: rec, Perf: perf, Metric: catalog.SchemaOf("").Primary().Name}
	if perf != nil {
		t.Metric = perf.Metrics()[0]
		if key == nil {
			key = perf.KeyOf(rec)
		}
	}

	t.Key = slices.DeleteFunc(slices.Clone(key), func(c string) bool { return !table.Has(rec, c) })

	col, err := table.Float64s(rec, t.Metric)
	if err != nil {
		return nil, err
	}

	t.Values = make([]float64, col.Len())
	for i := range t.Values {
		v, ok := col.At(i)
		if !ok {
			v = math.NaN()
		}
		t.Values[i] = v
	}

	return t, nil
}

// Offence is a row that breaks a rule, or that a rule cannot judge. Excess orders offences; more is worse.
type Offence struct {
	Row    int
	Excess float64
	Note   string
}

// Worst returns the worst offences. Equal ones keep the order of the list.
func Worst(list []Offence, most int) []Offence {
	list = slices.SortedStableFunc(slices.Values(list), func(a, b Offence) int { return cmp.Compare(b.Excess, a.Excess) })
	return list[:min(len(list), most)]
}

// Result is what a rule found.
type Result struct {
	Offences []Offence
	// Problems are statements about the table, or about a group of its rows, as a whole.
	Problems []string
	// Unjudged lists the rows that the rule cannot judge. Note gives the reason.
	Unjudged []Offence
}

func (r *Result) bad(row int, excess float64, note string) {
	r.Offences = append(r.Offences, Offence{row, excess, note})
}

func (r *Result) skip(row int, why string) {
	r.Unjudged = append(r.Unjudged, Offence{Row: row, Note: why})
}

// Unusable returns why v is no measurement of the named column, or "". Zero is a measurement only if
// zeroOK is set.
func Unusable(name string, v float64, zeroOK bool) string {
	switch {
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

// zeroOK reports whether a metric of zero is a measurement in this table.
func (t *Table) zeroOK() bool { return t.Perf != nil && t.Perf.ZeroLegal }

// unusable is Unusable for the metric of a row. NaN stands for a missing value.
func (t *Table) unusable(row int) string {
	if math.IsNaN(t.Values[row]) {
		return t.Metric + " has no value"
	}
	return Unusable(t.Metric, t.Values[row], t.zeroOK())
}

// milliseconds returns how many milliseconds one unit of the metric is, or 0 if the metric is no time.
func (t *Table) milliseconds() float64 {
	switch {
	case t.Perf == nil:
		return 1
	case t.Perf.Schema().Primary().Better == catalog.Higher:
		return 0
	case t.Perf.LatencyUnit() == "us":
		return 1e-3
	}
	return 1
}

// Number formats a value for messages: integers in full, others with at most so many significant digits.
func Number(v float64, digits int) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

func number(v float64) string { return Number(v, 4) }

// rank returns the value at a share of sorted values.
func rank(sorted []float64, share float64) float64 {
	return sorted[int(share*float64(len(sorted)-1))]
}

// Repeated is the rows of one key. Ratio is the largest over the smallest of their values, and Note has both; the
// ratio is 1 if it is unknown.
type Repeated struct {
	Rows  []int
	Ratio float64
	Note  string
}

// Repeats describes groups of rows with equal keys, those whose values differ most first. metric may be nil.
func Repeats(groups [][]int, metric *table.Col[float64]) []Repeated {
	const shown = 4
	var out []Repeated
	for _, rows := range groups {
		g := Repeated{Rows: rows, Ratio: 1, Note: strconv.Itoa(len(rows)) + " rows"}
		if metric != nil {
			lo, hi, values := math.Inf(1), math.Inf(-1), ""
			for i, r := range rows {
				v, _ := metric.At(r)
				lo, hi = min(lo, v), max(hi, v)
				if i < shown {
					values += fmt.Sprintf(" %.6g", v)
				}
			}
			if lo > 0 && !math.IsInf(hi, 0) {
				g.Ratio = hi / lo
				g.Note += fmt.Sprintf(", %s%s, max/min %.6g", metric.Name, values, g.Ratio)
			}
		}
		out = append(out, g)
	}

	slices.SortStableFunc(out, func(a, b Repeated) int {
		return cmp.Or(cmp.Compare(b.Ratio, a.Ratio), cmp.Compare(len(b.Rows), len(a.Rows)))
	})
	return out
}
