package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// widestCell is the maximum width of a text cell. Other formats, and --columns with a single column, show
// all of it.
const widestCell = 60

// viewTable prints a table for people. Numbers are right-aligned with their significant digits. It shows
// as many columns as fit, the most informative first. Columns with the same value in all rows are
// printed once above the table. If given is true, the user selected the columns and all of them are
// shown.
func (a *app) viewTable(t arrow.Record, info stage.Info, given bool, total int64) error {
	names := table.Names(t)
	if !given {
		names = telling(t, info)
	}

	var same []string
	var shown, empty []string
	for _, n := range names {
		if text, ok := oneValue(t, n); ok && !given {
			switch {
			case text == "":
				empty = append(empty, n)
			case len(same) < 12:
				same = append(same, n+" "+text)
			}
			continue
		}
		shown = append(shown, n)
	}

	if len(same) > 0 {
		for i, s := range same {
			same[i] = strings.ReplaceAll(s, " ", keep)
		}
		a.wrap(2, "", "All rows: "+strings.Join(same, ", ")+".")
		fmt.Fprintln(a.stdout)
	}

	var out textutil.Table
	var fits []string
	columns := [][]string{}
	width := 0
	for _, n := range shown {
		column, number := columnCells(t, n)
		wide := utf8.RuneCountInString(n)
		for _, c := range column {
			wide = max(wide, utf8.RuneCountInString(c))
		}

		if len(fits) > 0 && !given && width+2+wide > a.columns() {
			continue
		}

		width += 2 + wide
		fits, columns = append(fits, n), append(columns, column)
		if number {
			out.Right(n)
		} else {
			out.Left(n)
		}
	}

	for i := range table.Len(t) {
		row := make([]any, len(columns))
		for c := range columns {
			row[c] = columns[c][i]
		}
		out.Row(row...)
	}

	if err := out.Text(a.stdout, "", 0); err != nil {
		return err
	}

	rows := textutil.Some(t.NumRows(), "row")
	if t.NumRows() < total {
		rows = fmt.Sprintf("%d of %s", t.NumRows(), textutil.Some(total, "row"))
	}

	text := rows + "."
	text += unitsText(info.Tables().SchemaOf(info.Perf), fits)
	if left := without(table.Names(t), append(empty, fits...), same); !given && len(left) > 0 {
		text += fmt.Sprintf(" %s more; --columns chooses, --format csv has all: %s.",
			textutil.Some(len(left), "column"), strings.Join(left, ", "))
	}

	fmt.Fprintln(a.stdout)
	a.wrap(2, "", text)
	return nil
}

// unitsText returns the units of the shown columns. If all of them are times in the same unit, the unit
// is given once.
func unitsText(of *catalog.Schema, shown []string) string {
	times, units := true, []string{}
	var parts []string
	for _, m := range of.Metrics {
		if m.Unit == "" || !slices.Contains(shown, m.Name) {
			continue
		}
		times = times && slices.Contains([]string{"s", "ms", "us"}, m.Unit)
		units = append(units, m.Unit)
		parts = append(parts, m.Name+keep+m.Unit)
	}

	switch {
	case len(units) == 0:
		return ""
	case times && len(slices.Compact(slices.Sorted(slices.Values(units)))) == 1:
		return " Times are in " + units[0] + "."
	}

	return " Units: " + strings.Join(parts, ", ") + "."
}

// without returns the columns that are neither in the table nor in the line above it.
func without(all, shown, same []string) []string {
	var out []string
	for _, n := range all {
		if !slices.Contains(shown, n) &&
			!slices.ContainsFunc(same, func(s string) bool { return strings.HasPrefix(s, n+keep) }) {
			out = append(out, n)
		}
	}
	return out
}

// telling returns the columns in order of importance: parameters, results, their uncertainty, and then
// the others.
func telling(t arrow.Record, info stage.Info) []string {
	first := slices.Clone(info.Params)
	for _, c := range info.Tables().SchemaOf(info.Perf).Metrics {
		first = append(first, c.Name)
	}

	first = append(first, strings.Fields(`class message rel_stdev p10 p90 reached tflop_per_s gflop_per_s gb_per_s
		busbw_gb_s power sm_clock_mhz throttled kernel_source pass_spread samples group attempts operating_point
		used_cuda_graph status framework version device started_at`)...)

	var out []string
	add := func(names []string) {
		for _, n := range names {
			if table.Has(t, n) && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}

	add(first)
	add(table.Names(t))
	return out
}

// oneValue returns the value of a column that is the same in every row of several, or "" if all are null. It
// returns false if the values differ.
func oneValue(t arrow.Record, name string) (text string, same bool) {
	column := table.Index(t, name)
	if t.NumRows() < 2 {
		return "", false
	}
	for row := range table.Len(t) {
		if table.Value(t, column, row) != table.Value(t, column, 0) {
			return "", false
		}
	}

	if v := table.Value(t, column, 0); v != nil {
		text, _ := cellText(v)
		return text, true
	}
	return "", true
}

func columnCells(t arrow.Record, name string) (cells []string, number bool) {
	column := table.Index(t, name)
	number = true
	for row := range table.Len(t) {
		v := table.Value(t, column, row)
		text, n := cellText(v)
		number = number && (n || v == nil)
		cells = append(cells, text)
	}
	return cells, number
}

// cellText formats a value with its significant digits. A null value is a dash.
func cellText(v any) (text string, number bool) {
	switch v := v.(type) {
	case nil:
		return "-", false
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return shortNumber(v), true
	case string:
		return textutil.Clip(textutil.VisibleLine(textutil.OneLine(v)), widestCell), false
	}

	return fmt.Sprint(v), false
}

// shortNumber formats a number with four significant digits and avoids exponents for common magnitudes.
func shortNumber(v float64) string {
	if size := math.Abs(v); v == math.Trunc(v) && size < 1e12 || size >= 1e4 && size < 1e12 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	} else if size >= 1e-5 && size < 1e4 {
		decimals := 3 - int(math.Floor(math.Log10(size)))
		return strconv.FormatFloat(v, 'f', max(decimals, 0), 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
