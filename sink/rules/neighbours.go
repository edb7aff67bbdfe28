package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// axesOf lists the integer columns of key along which rows have neighbours.
func axesOf(rec arrow.Record, key []string) []string {
	var out []string
	for _, name := range key {
		if at := table.Index(rec, name); at >= 0 && rec.Column(at).DataType().ID() == arrow.INT64 {
			out = append(out, name)
		}
	}
	return out
}

// eachSeries calls visit with the rows that differ along axis alone, in the order of the axis, and with
// their positions on it. Rows without a usable value are left out. If rows share a position, the first
// one counts.
func eachSeries(rec arrow.Record, axis string, key []string, values []float64,
	visit func(rows []int, at []float64)) error {
	pos, err := table.Float64s(rec, axis)
	if err != nil {
		return err
	}

	cols := slices.DeleteFunc(slices.Clone(key), func(c string) bool { return c == axis || !table.Has(rec, c) })
	for _, c := range []string{"op_name", "kernel_source"} {
		if !slices.Contains(cols, c) && table.Has(rec, c) {
			cols = append(cols, c)
		}
	}

	ids, err := table.NewKeyIndex(cols, table.KeyOptions{}).Number(rec)
	if err != nil {
		return err
	}

	order := make([]int, 0, len(ids))
	for i, v := range values {
		if v > 0 && !math.IsInf(v, 0) && !pos.Null(i) && !math.IsNaN(pos.Values[i]) {
			order = append(order, i)
		}
	}

	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ids[a], ids[b]), cmp.Compare(pos.Values[a], pos.Values[b]), cmp.Compare(a, b))
	})

	var rows []int
	var at []float64
	flush := func() {
		if len(rows) > 1 {
			visit(rows, at)
		}
		rows, at = rows[:0], at[:0]
	}

	for i, row := range order {
		if i > 0 {
			prev := order[i-1]
			switch {
			case ids[row] != ids[prev]:
				flush()
			case pos.Values[row] == pos.Values[prev]:
				continue
			}
		}
		rows, at = append(rows, row), append(at, pos.Values[row])
	}
	flush()
	return nil
}

// Residuals compares each row with the values between its two neighbours along every axis. The result
// is the natural logarithm of value / expected for the axis on which they are closest; 0 if a value is
// above its neighbours on one axis and below them on another, and NaN if no axis has both neighbours.
func Residuals(rec arrow.Record, key []string, values []float64) ([]float64, error) {
	out := make([]float64, len(values))
	for i := range out {
		out[i] = math.NaN()
	}

	for _, axis := range axesOf(rec, key) {
		err := eachSeries(rec, axis, key, values, func(rows []int, at []float64) {
			for i := 1; i+1 < len(rows); i++ {
				r := residual(at[i-1:i+2], values[rows[i-1]], values[rows[i]], values[rows[i+1]])
				switch old := out[rows[i]]; {
				case math.IsNaN(old):
					out[rows[i]] = r
				case old*r <= 0:
					out[rows[i]] = 0
				case math.Abs(r) < math.Abs(old):
					out[rows[i]] = r
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}

	return out, nil
}

// residual is the logarithm of value over what its neighbours let expect: the line between them on
// logarithmic scales.
func residual(at []float64, before, value, after float64) float64 {
	share := 0.5
	if at[0] > 0 {
		share = math.Log(at[1]/at[0]) / math.Log(at[2]/at[0])
	}
	return math.Log(value) - (1-share)*math.Log(before) - share*math.Log(after)
}

// Limits of outliers.
const (
	// OutlierRatio is from which multiple of the line between its neighbours on a row is an outlier.
	OutlierRatio = 1.7
	// OutlierShare is how large a share of the rows may be outliers: kernels change between cases.
	OutlierShare = 0.0075
	// fewestOutliers is how many outliers a small table may have.
	fewestOutliers = 4
	// grossRatio is from which multiple on a single row counts.
	grossRatio = 50.0
)

// NoNeighbours is the reason why Outliers does not judge a row that is first or last on every axis.
const NoNeighbours = "it has no neighbours on both sides"

// Outliers finds rows that stand apart from their neighbours on every axis, by more than ratio. Rows
// without two neighbours on any axis are not judged. If at most share of the rows stand apart, only
// those far beyond the ratio are offences.
func (t *Table) Outliers(ratio, share float64) (Result, error) {
	var out Result
	res, err := Residuals(t.Rec, t.Key, t.Values)
	if err != nil {
		return out, err
	}

	judged := 0
	var all, gross []Offence

	for i, r := range res {
		switch why := t.unusable(i); {
		case why != "":
			out.skip(i, why)
			continue
		case math.IsNaN(r):
			out.skip(i, NoNeighbours)
			continue
		}

		judged++

		times := math.Exp(r)
		o := Offence{i, math.Exp(math.Abs(r)), fmt.Sprintf("(%s times what its neighbours let expect)", number(times))}
		if o.Excess > ratio {
			all = append(all, o)
		}
		if o.Excess > grossRatio {
			gross = append(gross, o)
		}
	}

	if len(all) > fewestOutliers && float64(len(all)) > share*float64(judged) {
		out.Offences = all
	} else {
		out.Offences = gross
	}

	return out, nil
}

// Limits of falls.
const (
	// FallRatio is below which multiple of the step before a time falls: upstream's tools use it too.
	FallRatio = 0.7
	// FallShare is how large a share of the steps may be falls: other kernels take over at some sizes.
	FallShare = 0.025
	// shortFall is the time in milliseconds below which steps are not compared: noise rules there.
	shortFall = 0.03
	// fewestFalls is how many falls a small table may have.
	fewestFalls = 4
)

// workAxes are the columns along which work grows.
var workAxes = Axes

// Falls finds rows whose time is below ratio of that of the next smaller value on an axis along which
// work grows. They are offences if they are more than share of the steps. steps is how many pairs of rows
// were compared.
func (t *Table) Falls(ratio, share float64) (out Result, steps int, err error) {
	scale := t.milliseconds()
	for _, axis := range workAxes {
		if scale == 0 || !slices.Contains(t.Key, axis) {
			continue
		}

		err := eachSeries(t.Rec, axis, t.Key, t.Values, func(rows []int, _ []float64) {
			for i := 1; i < len(rows); i++ {
				before, v := t.Values[rows[i-1]], t.Values[rows[i]]
				if before*scale < shortFall {
					continue
				}

				steps++
				if v < ratio*before {
					out.bad(rows[i], before/v, fmt.Sprintf("(%s times the row before it along %s)", number(v/before), axis))
				}
			}
		})
		if err != nil {
			return out, steps, err
		}
	}

	if len(out.Offences) <= fewestFalls || float64(len(out.Offences)) <= share*float64(steps) {
		out.Offences = nil
	}
	return out, steps, nil
}
