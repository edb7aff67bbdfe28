package model

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// Sorted returns the finite values of v in ascending order.
func Sorted(v []float64) []float64 {
	out := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return !finite(x) })
	slices.Sort(out)
	return out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// at returns the value of a row, or nil if it is unknown.
func at(v []float64, row int) any {
	if v == nil || !finite(v[row]) {
		return nil
	}
	return v[row]
}

// Distinct returns the finite values of v in ascending order, each once.
func Distinct(v []float64) []float64 { return slices.Compact(Sorted(v)) }

// Places returns the position of each value of v in sorted values, -1 for those that are not among them.
func Places[T cmp.Ordered](values, v []T) []int {
	out := make([]int, len(v))
	for i, x := range v {
		at, ok := slices.BinarySearch(values, x)
		if out[i] = at; !ok {
			out[i] = -1
		}
	}
	return out
}

// orNil returns v, or nil if all its values are NaN.
func orNil(v []float64) []float64 {
	if slices.ContainsFunc(v, func(x float64) bool { return !math.IsNaN(x) }) {
		return v
	}
	return nil
}

// numbers returns the values of a column, NaN for null. It returns nil if there is no such column or if
// all values are null.
func numbers(rec arrow.Record, name string) []float64 {
	c, err := table.Float64s(rec, name)
	if err != nil {
		return nil
	}

	out := slices.Clone(c.Values)
	for i := range out {
		if c.Null(i) {
			out[i] = math.NaN()
		}
	}

	return orNil(out)
}

// texts returns a column of texts or flags, "" for null. It returns nil if there is no such column.
func texts(rec arrow.Record, name string) []string {
	if c, err := table.Strings(rec, name); err == nil {
		return c.Values
	}

	c, err := table.Bools(rec, name)
	if err != nil {
		return nil
	}

	out := make([]string, len(c.Values))
	for i, v := range c.Values {
		if !c.Null(i) {
			out[i] = strconv.FormatBool(v)
		}
	}

	return out
}

// words reads a column of text as a series. The series is empty if there is no such column.
func words(rec arrow.Record, name string) Series {
	codes, values, err := table.Codes(rec, name)
	if err != nil {
		return Series{}
	}

	count := make([]int, len(values))
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	for _, c := range codes {
		if c >= 0 {
			count[c]++
		}
	}

	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), strings.Compare(values[a], values[b]))
	})

	s := Series{Column: name, Code: make([]int, len(codes))}
	rank := make([]int, len(values))
	for r, o := range order {
		rank[o] = r
		s.Names = append(s.Names, values[o])
	}

	for i, c := range codes {
		s.Code[i] = -1
		if c >= 0 {
			s.Code[i] = rank[c]
		}
	}

	return s
}

// started reads when each row was measured, in seconds since 1970.
func started(rec arrow.Record) []float64 {
	values := texts(rec, "started_at")
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.NaN()
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			out[i] = float64(t.UnixNano()) / 1e9
		}
	}

	return orNil(out)
}
