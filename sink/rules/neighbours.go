package rules

import (
	"aicplan/sink/table"
	"fmt"
	"github.com/apache/arrow/go/v17/arrow"
	"math"
	"slices"
)

// Residuals compares each row with the values between its two neighbours along every axis. The result
// is the natural logarithm of value / expected for the axis on which they are closest; 0 if a value is
// above its neighbours on one axis and below them on another, and NaN if no axis has both neighbours. axes
// counts the axes that have.
func (t *Table) Residuals() (out []float64, axes []int) {
	out, axes = make([]float64, len(t.Values)), make([]int, len(t.Values))
	for i := range out {
		out[i] = math.NaN()
	}

	names := slices.DeleteFunc(slices.Clone(t.Key), func(name string) bool {
		return t.Rec.Column(table.Index(t.Rec, name)).DataType().ID() != arrow.INT64
	})
	for _, axis := range names {
		t.series(axis, func(rows []member) {
			for i := 1; i+1 < len(rows); i++ {
				row, r := rows[i].row, t.residual(neighbour(rows, i, -1), rows[i], neighbour(rows, i, 1))
				axes[row]++
				switch old := out[row]; {
				case math.IsNaN(old):
					out[row] = r
				case old*r <= 0:
					out[row] = 0
				case math.Abs(r) < math.Abs(old):
					out[row] = r
				}
			}
		})
	}

	return out, axes
}

// minRatio is the least ratio between the value of a row on an axis and that of its neighbour. Kernels work on tiles,
// so grids have 512 and 513 tokens, between which the time jumps.
const minRatio = 1.02

// neighbour returns the nearest row on one side (-1 or 1) of row i that is at least minRatio away, or else the next
// row.
func neighbour(rows []member, i, side int) member {
	for j := i + side; j >= 0 && j < len(rows); j += side {
		if rows[j].at > rows[i].at*minRatio || rows[j].at*minRatio < rows[i].at {
			return rows[j]
		}
	}
	return rows[i+side]
}

// residual is the logarithm of the value of a row over what its neighbours let expect: the line between them on
// logarithmic scales.
func (t *Table) residual(before, row, after member) float64 {
	share := 0.5
	if before.at > 0 {
		share = math.Log(row.at/before.at) / math.Log(after.at/before.at)
	}
	return math.Log(t.Values[row.row]) - (1-share)*math.Log(t.Values[before.row]) - share*math.Log(t.Values[after.row])
}

// Limits of outliers.
const (
	// OutlierRatio is from which multiple of the line between its neighbours on a row is an outlier.
	OutlierRatio = 1.7
	// OutlierShare is how large a share of the rows may be outliers: kernels change between cases.
	OutlierShare = 0.0075
	// LineShare is that share in a table whose rows mostly have neighbours along one axis only, such as that of
	// one model: a step of a kernel there looks like a row that is wrong.
	LineShare = 0.025
	// fewestOutliers is how many outliers a small table may have.
	fewestOutliers = 4
	// grossRatio is from which multiple on a single row counts, and smallGrossRatio is that of tables so small that
	// fewestOutliers exceeds their share.
	grossRatio, smallGrossRatio = 50.0, 8.0
)

// NoNeighbours is the reason why Outliers does not judge a row that is first or last on every axis.
const NoNeighbours = "it has no neighbours on both sides"

// Outliers finds rows that stand apart from their neighbours on every axis, by more than OutlierRatio. Rows
// without two neighbours on any axis are not judged. If at most OutlierShare or LineShare of the rows
// stand apart, only those far beyond the ratio are offences.
func (t *Table) Outliers() (out Result) {
	res, axes := t.Residuals()
	judged, lines, worst := 0, 0, 0.0
	var all []Offence

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
		if axes[i] == 1 {
			lines++
		}

		times := math.Exp(r)
		o := Offence{i, math.Exp(math.Abs(r)), fmt.Sprintf("(%s times what its neighbours let expect)", number(times))}
		worst = max(worst, o.Excess)
		if o.Excess > OutlierRatio {
			all = append(all, o)
		}
	}

	share := OutlierShare
	if 2*lines > judged {
		share = LineShare
	}
	out.Offences = all
	if len(all) <= fewestOutliers || float64(len(all)) <= share*float64(judged) {
		limit := grossRatio
		if judged >= enoughRows && share*float64(judged) < fewestOutliers {
			// The neighbours of a wrong row are themselves apart, by about the root of its ratio.
			limit = min(limit, max(smallGrossRatio, worst/smallGrossRatio))
		}
		out.Offences = slices.DeleteFunc(all, func(o Offence) bool { return o.Excess <= limit })
	}
	return out
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

// Falls finds rows whose time is below FallRatio of that of the next smaller value on an axis along which
// work grows. They are offences if they are more than FallShare of the steps. steps is how many pairs of rows
// were compared.
func (t *Table) Falls() (out Result, steps int) {
	scale := t.milliseconds()
	for _, axis := range append(slices.Clone(Axes), "num_v_heads") {
		if scale == 0 || !slices.Contains(t.Key, axis) {
			continue
		}

		var beside []string
		if axis == "num_v_heads" && slices.Contains(t.Key, "num_k_heads") {
			beside = []string{"num_k_heads"} // both are shares of the same ranks
		}
		t.series(axis, func(rows []member) {
			for i := 1; i < len(rows); i++ {
				row := rows[i].row
				before, v := t.Values[rows[i-1].row], t.Values[row]
				if before*scale < shortFall {
					continue
				}

				steps++
				if v < FallRatio*before {
					out.bad(row, before/v, fmt.Sprintf("(%s times the row before it along %s)", number(v/before), axis))
				}
			}
		}, beside...)
	}

	if len(out.Offences) <= fewestFalls || float64(len(out.Offences)) <= FallShare*float64(steps) {
		out.Offences = nil
	}
	return out, steps
}
