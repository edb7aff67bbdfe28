package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
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
