package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"aicplan/cudaops/measure"
	"aicplan/sink/table"
)

// countingAggregates count values of any type. The others are of the numbers of a column.
var countingAggregates = []string{"distinct", "nulls"}

// errNoRows reports a table without rows. Counting its nulls would pass a table that lost all of its rows.
var errNoRows = errors.New("there are no rows")

// aggregate computes an aggregate of a column. left has the rows without a number.
func (s *subject) aggregate(name, col string) (v float64, left leftover, err error) {
	if slices.Contains(countingAggregates, name) {
		v, err = s.countValues(name, col)
		return v, left, err
	}

	nums, err := numbers(s.rec, col)
	if err != nil {
		return 0, left, err
	}

	var vals []float64
	for i, v := range nums.Values {
		switch {
		case nums.Null(i):
			left.row(i, col+" is null")
			continue
		case math.IsNaN(v):
			left.row(i, col+" is NaN")
			continue
		case math.IsInf(v, 0):
			left.row(i, col+" is infinite")
		}
		vals = append(vals, v)
	}

	if len(vals) == 0 {
		return 0, left, errors.New("no row has a value there")
	}

	switch name {
	case "min":
		name = "p0"
	case "max":
		name = "p100"
	case "median":
		name = "p50"
	case "sum":
		return floats.Sum(vals), left, nil
	case "mean":
		return stat.Mean(vals, nil), left, nil
	case "stdev":
		if len(vals) < 2 {
			return 0, left, fmt.Errorf("one value has no scatter")
		}
		return stat.StdDev(vals, nil), left, nil
	}

	p, err := strconv.ParseFloat(name[1:], 64)
	return measure.Percentile(vals, p/100), left, err
}

// countValues counts the nulls or the distinct values of a column.
func (s *subject) countValues(name, col string) (float64, error) {
	arr := column(s.rec, col)
	if arr == nil {
		return 0, missingColumn(s.rec, col)
	}
	if arr.Len() == 0 {
		return 0, errNoRows
	}
	if name == "nulls" {
		return float64(arr.NullN()), nil
	}

	_, n := table.Number(s.rec, col)
	return float64(n - min(arr.NullN(), 1)), nil // null is no value
}
