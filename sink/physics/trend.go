// Package physics says where measured rows contradict what hardware can do:
// latencies that fall while the work grows, spikes between their neighbours,
// rows faster than the speed of light.
package physics

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// The limits that upstream's own tools use.
const (
	FallRatio  = 0.7  // a step down below this is a contradiction
	SpikeRatio = 3.0  // a value above this multiple of both neighbours is one
	FloorMS    = 0.03 // below, noise rules: such rows are not judged
)

// Axes are the columns along which work grows, in the order in which they are
// looked at.
var Axes = []string{"batch_size", "isl", "m", "num_tokens", "num_token", "step", "seq_len", "message_size"}

// TrendOptions adjust Falls and Spikes.
type TrendOptions struct {
	Metric string  // "" means latency
	Ratio  float64 // 0 means FallRatio or SpikeRatio
	// Floor in the metric's unit; rows below are not judged. Negative means
	// none, 0 means FloorMS; see FloorOf for tables in other units.
	Floor float64
	// Compared, when set, is told every row that took part in a comparison.
	Compared func(row int)
}

func (o TrendOptions) filled(ratio float64) TrendOptions {
	if o.Metric == "" {
		o.Metric = catalog.SchemaOf("").Primary().Name
	}
	if o.Ratio == 0 {
		o.Ratio = ratio
	}
	if o.Floor == 0 {
		o.Floor = FloorMS
	}
	if o.Compared == nil {
		o.Compared = func(int) {}
	}
	return o
}

// Violation is a row that contradicts its neighbours along an axis.
type Violation struct {
	Row   int // the row that is wrong
	Other int // the neighbour that it was compared with
	Axis  string
	// Ratio is the row's value over its neighbour's: below 1 for falls, above
	// 1 for spikes.
	Ratio float64
}

// AxesOf lists the axes that a table has and that are among key.
func AxesOf(rec arrow.Record, key []string) []string {
	var out []string
	for _, a := range Axes {
		if slices.Contains(key, a) && table.Has(rec, a) {
			out = append(out, a)
		}
	}
	return out
}

// Falls finds rows whose value is below Ratio of that of the next smaller
// value of axis, all other key columns (and the kernel) being equal.
// compared counts the pairs that were judged.
func Falls(rec arrow.Record, axis string, key []string, o TrendOptions) (found []Violation, compared int, err error) {
	o = o.filled(FallRatio)
	err = walk(rec, axis, key, o.Metric, func(rows []int, values []float64) {
		for i := 1; i < len(rows); i++ {
			if values[i-1] < o.Floor {
				continue
			}
			compared++
			o.Compared(rows[i-1])
			o.Compared(rows[i])
			if r := values[i] / values[i-1]; r < o.Ratio {
				found = append(found, Violation{Row: rows[i], Other: rows[i-1], Axis: axis, Ratio: r})
			}
		}
	})
	return found, compared, err
}

// Spikes finds rows whose value is above Ratio times both neighbours along
// axis.
func Spikes(rec arrow.Record, axis string, key []string, o TrendOptions) (found []Violation, compared int, err error) {
	o = o.filled(SpikeRatio)
	err = walk(rec, axis, key, o.Metric, func(rows []int, values []float64) {
		for i := 1; i+1 < len(rows); i++ {
			if values[i] < o.Floor {
				continue
			}
			compared++
			o.Compared(rows[i])
			larger := i - 1
			if values[i+1] > values[i-1] {
				larger = i + 1
			}
			if r := values[i] / values[larger]; r > o.Ratio {
				found = append(found, Violation{Row: rows[i], Other: rows[larger], Axis: axis, Ratio: r})
			}
		}
	})
	return found, compared, err
}

// walk calls visit with the rows of every series along axis, sorted by it.
// Of rows with the same axis value the first counts; unusable values are left
// out.
func walk(rec arrow.Record, axis string, key []string, metric string, visit func(rows []int, values []float64)) error {
	at, err := table.Float64s(rec, axis)
	if err != nil {
		return fmt.Errorf("along %s: %w", axis, err)
	}
	values, err := table.Float64s(rec, metric)
	if err != nil {
		return err
	}
	ids, err := series(rec, axis, key)
	if err != nil {
		return err
	}
	order := make([]int, 0, len(ids))
	for i, v := range values.Values {
		if !values.Null(i) && !at.Null(i) && v > 0 && !math.IsInf(v, 0) && !math.IsNaN(at.Values[i]) && !math.IsInf(at.Values[i], 0) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ids[a], ids[b]), cmp.Compare(at.Values[a], at.Values[b]), cmp.Compare(a, b))
	})
	var rows []int
	var vals []float64
	flush := func() {
		if len(rows) > 1 {
			visit(rows, vals)
		}
		rows, vals = rows[:0], vals[:0]
	}
	for i, row := range order {
		if i > 0 {
			prev := order[i-1]
			switch {
			case ids[row] != ids[prev]:
				flush()
			case at.Values[row] == at.Values[prev]:
				continue
			}
		}
		rows, vals = append(rows, row), append(vals, values.Values[row])
	}
	flush()
	return nil
}

// series numbers the rows by everything that must be equal along an axis: the
// key without the axis, and the kernel.
func series(rec arrow.Record, axis string, key []string) ([]uint32, error) {
	cols := slices.DeleteFunc(slices.Clone(key), func(c string) bool { return c == axis || !table.Has(rec, c) })
	for _, c := range []string{"op_name", "kernel_source"} {
		if !slices.Contains(cols, c) && table.Has(rec, c) {
			cols = append(cols, c)
		}
	}
	return table.NewKeyIndex(cols, table.KeyOptions{}).Number(rec)
}

// FloorOf is the floor in the unit of a table's latency.
func FloorOf(t *catalog.Table) float64 {
	if t != nil && t.LatencyUnit() == "us" {
		return FloorMS * 1000
	}
	return FloorMS
}
