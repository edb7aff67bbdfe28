package rules

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// TextError reports a name or a value that no perf file may have, such as control characters and
// formulas: terminals and spreadsheets would act on them.
type TextError struct {
	Column string
	Row    int // -1: the name of the column
	Why    string
}

func (e *TextError) Error() string {
	if e.Row < 0 {
		return fmt.Sprintf("the name of the column %q %s", e.Column, e.Why)
	}
	return fmt.Sprintf("the column %s %s", e.Column, e.Why)
}

// Texts returns a *TextError for the first unfit name or value of rec.
func Texts(rec arrow.Record) error {
	for _, name := range table.Names(rec) {
		if why := textutil.Unfit(name); why != "" {
			return &TextError{name, -1, why}
		}

		col, err := table.Strings(rec, name)
		if err != nil {
			continue // no text
		}

		seen := "" // most rows repeat the value before
		for i, v := range col.Values {
			if v == seen || col.Null(i) {
				continue
			}
			if why := textutil.Unfit(v); why != "" {
				return &TextError{name, i, why}
			}
			seen = v
		}
	}

	return nil
}

// Metric counts the values of a column that are no measurements, by reason, and returns the first row with
// one; -1 if there is none. Null counts if every row needs a value.
func Metric(rec arrow.Record, name string, needed, zeroOK bool) (why string, first int, err error) {
	col, err := table.Float64s(rec, name)
	if err != nil {
		return "", -1, err
	}

	counts := map[string]int{}
	first = -1
	for i, v := range col.Values {
		reason := Unusable("", v, zeroOK)
		if col.Null(i) {
			if reason = ""; needed {
				reason = " is null"
			}
		}

		if reason == "" {
			continue
		}

		if counts[strings.TrimPrefix(reason, " is ")]++; first < 0 {
			first = i
		}
	}

	var parts []string
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[w], w))
	}
	return strings.Join(parts, ", "), first, nil
}

// Convert returns a column with a type of the catalog, if every value has an equal one of that type: integers and
// floats without a fraction, and the integers 0 and 1 for booleans. A column without any value has every type.
func Convert(rec arrow.Record, name string, want catalog.Type) (arrow.Array, error) {
	arr, err := table.Array(rec, name)
	if err != nil {
		return nil, err
	}

	switch {
	case arr.DataType().ID() == want.ID():
		return arr, nil
	case arr.NullN() == arr.Len():
		return table.Nulls(want.DataType, arr.Len()), nil
	}

	col, err := table.Float64s(rec, name)
	if err != nil || want.ID() == arrow.STRING || want.ID() == arrow.BOOL && arr.DataType().ID() != arrow.INT64 {
		return nil, fmt.Errorf("it is %s", table.TypeName(arr.DataType()))
	}
	if want.ID() == arrow.FLOAT64 {
		return table.Floats(col.Values, col.Valid), nil
	}

	ints, flags := make([]int64, col.Len()), make([]bool, col.Len())
	for i, v := range col.Values {
		ints[i], flags[i] = int64(v), v == 1
		switch {
		case col.Null(i):
		case math.Trunc(v) != v:
			return nil, fmt.Errorf("row %d has %g, which is not a whole number", i+1, v)
		case math.Abs(v) >= 1<<53: // floats cannot represent it exactly
			return nil, fmt.Errorf("row %d has %.17g, which is too large to be exact beside numbers with a point or an "+
				"exponent", i+1, v)
		case want.ID() == arrow.BOOL && v != 0 && v != 1:
			return nil, fmt.Errorf("row %d has %g, which is neither 0 nor 1", i+1, v)
		}
	}

	if want.ID() == arrow.BOOL {
		return table.Flags(flags, col.Valid), nil
	}
	return table.Ints(ints, col.Valid), nil
}
