package table

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Order returns the positions of the rows of rec sorted by columns as SortIndices does. Rows that
// agree on all of them are sorted by the remaining columns, so that the result does not depend on
// the order of the rows. Columns that rec lacks are ignored.
func Order(rec arrow.Record, columns []string) []int {
	var keys, seen []string
	for _, key := range slices.Concat(columns, Names(rec)) {
		name := strings.TrimPrefix(key, "-")
		if Has(rec, name) && !slices.Contains(seen, name) {
			keys, seen = append(keys, key), append(seen, name)
		}
	}
	rows, _ := SortIndices(rec, keys...) // the columns are there
	return rows
}

// SortIndices returns the row order that sorts rec by columns, the first being the most significant;
// "-name" sorts from the largest value on. Equal rows keep their order. Strings compare by bytes, false is before true,
// -0 equals 0, NaN is greater than all numbers, and null is last, ascending or not.
func SortIndices(rec arrow.Record, columns ...string) ([]int, error) {
	compares := make([]func(a, b int) int, len(columns))
	for i, column := range columns {
		var err error
		if compares[i], err = comparer(rec, column); err != nil {
			return nil, err
		}
	}

	compare := func(a, b int) int {
		for _, f := range compares {
			if c := f(a, b); c != 0 {
				return c
			}
		}

		return cmp.Compare(a, b)
	}

	order := make([]int, rec.NumRows())
	for i := range order {
		order[i] = i
	}
	if !slices.IsSortedFunc(order, compare) {
		slices.SortFunc(order, compare)
	}

	return order, nil
}

// Sort returns rec sorted as by SortIndices.
func Sort(rec arrow.Record, columns ...string) (arrow.Record, error) {
	rows, err := SortIndices(rec, columns...)
	if err != nil {
		return nil, err
	}
	if slices.IsSorted(rows) {
		return rec, nil
	}

	return Take(rec, rows), nil
}

// comparer compares two rows of a column.
func comparer(rec arrow.Record, column string) (func(a, b int) int, error) {
	name, falling := strings.CutPrefix(column, "-")
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}

	var values func(a, b int) int
	switch c := arr.(type) {
	case *array.Int64:
		ints := c.Int64Values()
		values = func(a, b int) int { return cmp.Compare(ints[a], ints[b]) }
	case *array.Float64:
		floats := c.Float64Values()
		values = func(a, b int) int { return compareFloats(floats[a], floats[b]) }
	case *array.String:
		values = func(a, b int) int { return strings.Compare(c.Value(a), c.Value(b)) }
	case *array.Boolean:
		values = func(a, b int) int { return cmp.Compare(boolInt(c.Value(a)), boolInt(c.Value(b))) }
	default:
		panic(unknown(name, arr))
	}

	sign := 1
	if falling {
		sign = -1
	}
	if arr.NullN() == 0 {
		return func(a, b int) int { return sign * values(a, b) }, nil
	}

	return func(a, b int) int {
		switch {
		case arr.IsNull(a):
			return boolInt(!arr.IsNull(b))
		case arr.IsNull(b):
			return -1
		}

		return sign * values(a, b)
	}, nil
}

// compareFloats is cmp.Compare with NaN above all numbers.
func compareFloats(a, b float64) int {
	if math.IsNaN(a) || math.IsNaN(b) {
		return -cmp.Compare(a, b)
	}

	return cmp.Compare(a, b)
}

func boolInt(b bool) int {
	if b {
		return 1
	}

	return 0
}
