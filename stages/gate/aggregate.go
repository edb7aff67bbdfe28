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

// tableAggregate computes an aggregate of the dataset, such as "count" or "coverage", over the rows and
// cases that "on" selects. It returns NaN if the dataset lacks what the aggregate needs: tables read
// from files have no planned cases and no ledger.
func (s *subject) tableAggregate(name string) (float64, error) {
	if name == "count" {
		return float64(s.selected), nil
	}

	if s.ds.Planned == nil {
		return math.NaN(), nil
	}

	keep, err := matching(s.ds.Planned, s.on)
	if err != nil {
		return 0, err
	}

	switch name {
	case "planned":
		return float64(count(keep)), nil
	case "failed", "skipped":
		return s.ended(name, keep)
	}

	have, total, err := s.plannedAnswered(keep)
	if err != nil {
		return 0, err
	}

	if name == "measured" {
		return float64(have), nil
	}

	if total == 0 {
		return math.NaN(), nil // no planned case is selected, so a share is undefined
	}

	return ratioOf(have, total), nil
}

func count(keep []bool) int {
	n := 0
	for _, k := range keep {
		if k {
			n++
		}
	}
	return n
}

// ended counts the selected cases whose ledger entry has the given status.
func (s *subject) ended(status string, keep []bool) (float64, error) {
	if s.ds.Ledger == nil {
		return math.NaN(), nil
	}

	got, err := table.Strings(s.ds.Ledger, "status")
	if err != nil {
		return 0, err
	}

	if len(s.on) == 0 {
		n := 0
		for _, v := range got.Values {
			if v == status {
				n++
			}
		}
		return float64(n), nil
	}

	// The ledger has no parameter columns to select by. Its cases are looked up in the planned cases.
	ids, err := table.Strings(s.ds.Planned, "case_id")
	if err != nil {
		return 0, err
	}

	selected := map[string]bool{}
	for i, id := range ids.Values {
		if keep[i] {
			selected[id] = true
		}
	}

	of, err := table.Strings(s.ds.Ledger, "case_id")
	if err != nil {
		return 0, err
	}

	n := 0
	for i, v := range got.Values {
		if v == status && selected[of.Values[i]] {
			n++
		}
	}

	return float64(n), nil
}

// plannedAnswered counts the selected planned cases, and those of them that have a row.
func (s *subject) plannedAnswered(keep []bool) (have, total int, err error) {
	want := s.ds.Planned
	key := s.ds.Info.Params
	if column(want, "case_id") != nil && column(s.rec, "case_id") != nil {
		key = []string{"case_id"}
	}

	ix := table.NewKeyIndex(key, table.KeyOptions{})
	ids, err := ix.Number(want)
	if err != nil {
		return 0, 0, err
	}

	answered := make([]bool, ix.Len())
	if s.rec != nil {
		got, err := ix.Number(s.rec)
		if err != nil {
			return 0, 0, err
		}

		for _, id := range got {
			if int(id) < len(answered) {
				answered[id] = true
			}
		}
	}

	for i, id := range ids {
		if keep[i] {
			total++
			if answered[id] {
				have++
			}
		}
	}

	return have, total, nil
}

// errNoValue reports a column without any numeric value in the selected rows.
var errNoValue = errors.New("no row has a value there")

// errNoRows reports an empty selection. Counting its nulls would pass a table that lost all of its rows.
var errNoRows = errors.New("there are no rows")

// columnAggregate computes one aggregate of a column over its numeric values. Rows with null, NaN or
// infinite values are added to left. "distinct" and "nulls" accept columns of any type and count every
// row.
func (s *subject) columnAggregate(name, col string, left *leftover) (float64, error) {
	if name == "distinct" || name == "nulls" {
		return s.countValues(name, col)
	}

	nums, err := numbers(s.rec, col)
	if err != nil {
		return 0, err
	}

	var vals []float64
	for i, v := range nums.val {
		if !s.has(i) {
			continue
		}

		switch {
		case nums.null[i]:
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
		return 0, errNoValue
	}

	switch name {
	case "min":
		return slices.Min(vals), nil
	case "max":
		return slices.Max(vals), nil
	case "median":
		return measure.Percentile(vals, 0.5), nil
	case "sum":
		return floats.Sum(vals), nil
	case "mean":
		return stat.Mean(vals, nil), nil
	case "stdev":
		if len(vals) < 2 {
			return 0, fmt.Errorf("one value has no scatter")
		}
		return stat.StdDev(vals, nil), nil
	}

	p, err := strconv.ParseFloat(name[1:], 64)
	if err != nil {
		return 0, err
	}

	return measure.Percentile(vals, p/100), nil
}

func (s *subject) countValues(name, col string) (float64, error) {
	arr := column(s.rec, col)
	if arr == nil {
		_, err := numbers(s.rec, col)
		return 0, err
	}

	if s.selected == 0 {
		return 0, errNoRows
	}

	seen := map[string]bool{}
	nulls := 0
	for i := range arr.Len() {
		if !s.has(i) {
			continue
		}
		if arr.IsNull(i) {
			nulls++
			continue
		}
		seen[table.Text(arr, i)] = true
	}

	if name == "nulls" {
		return float64(nulls), nil
	}

	return float64(len(seen)), nil
}
