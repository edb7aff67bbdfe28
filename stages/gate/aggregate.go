package gate

import (
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/rowkey"
	"aicplan/sink/table"
)

// tableAggregate counts rows and cases among those that "on" selects.
func (s *subject) tableAggregate(name string) float64 {
	switch name {
	case "count":
		return float64(s.selected)
	case "planned":
		return float64(s.selectedOf(s.ds.Planned))
	case "measured":
		have, _ := s.plannedAnswered()
		return float64(have)
	case "failed", "skipped":
		n := 0
		if s.ds.Ledger != nil {
			if status, err := table.Strings(s.ds.Ledger, "status"); err == nil {
				for _, v := range status.Values {
					if v == name {
						n++
					}
				}
			}
		}
		return float64(n)
	case "coverage":
		have, total := s.plannedAnswered()
		return ratioOf(have, total)
	}
	return math.NaN()
}

func (s *subject) selectedOf(rec arrow.Record) int {
	if rec == nil {
		return 0
	}
	keep, err := matching(rec, s.on)
	if err != nil {
		return 0
	}
	n := 0
	for _, k := range keep {
		if k {
			n++
		}
	}
	return n
}

// plannedAnswered counts planned cases that have a row.
func (s *subject) plannedAnswered() (have, total int) {
	want := s.ds.Planned
	if want == nil {
		return s.selected, s.selected
	}
	key := s.ds.Info.Params
	if column(want, "case_id") != nil && column(s.rec, "case_id") != nil {
		key = []string{"case_id"}
	}
	ix := rowkey.New(key, rowkey.Options{})
	ids, err := ix.Number(want)
	if err != nil {
		return 0, int(want.NumRows())
	}
	answered := make([]bool, ix.Len())
	if s.rec != nil {
		got, err := ix.Number(s.rec)
		if err != nil {
			return 0, int(want.NumRows())
		}
		for _, id := range got {
			if int(id) < len(answered) {
				answered[id] = true
			}
		}
	}
	keep, err := matching(want, s.on)
	if err != nil {
		return 0, int(want.NumRows())
	}
	for i, id := range ids {
		if keep[i] {
			total++
			if answered[id] {
				have++
			}
		}
	}
	return have, total
}

// columnAggregate computes one aggregate of one column; NaN when there is no
// value. distinct works on columns of any type.
func (s *subject) columnAggregate(name, col string) (float64, error) {
	if name == "distinct" || name == "nulls" {
		return s.countValues(name, col)
	}
	nums, err := numbers(s.rec, col)
	if err != nil {
		return 0, err
	}
	var vals []float64
	for i, v := range nums.val {
		if s.has(i) && !math.IsNaN(v) {
			vals = append(vals, v)
		}
	}
	if len(vals) == 0 {
		return math.NaN(), nil
	}
	slices.Sort(vals)
	switch name {
	case "min":
		return vals[0], nil
	case "max":
		return vals[len(vals)-1], nil
	case "median":
		return percentile(vals, 50), nil
	case "sum":
		return sum(vals), nil
	case "mean":
		return sum(vals) / float64(len(vals)), nil
	case "stdev":
		mean := sum(vals) / float64(len(vals))
		sq := 0.0
		for _, v := range vals {
			sq += (v - mean) * (v - mean)
		}
		return math.Sqrt(sq / float64(len(vals))), nil
	}
	p, err := strconv.ParseFloat(name[1:], 64)
	if err != nil {
		return 0, err
	}
	return percentile(vals, p), nil
}

func (s *subject) countValues(name, col string) (float64, error) {
	arr := column(s.rec, col)
	if arr == nil {
		_, err := numbers(s.rec, col)
		return 0, err
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
		seen[rowkey.Text(arr, i)] = true
	}
	if name == "nulls" {
		return float64(nulls), nil
	}
	return float64(len(seen)), nil
}

func sum(vals []float64) float64 {
	total := 0.0
	for _, v := range vals {
		total += v
	}
	return total
}
