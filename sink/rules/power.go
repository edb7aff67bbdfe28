package rules

import (
	"fmt"
	"math"
	"slices"

	"aicplan/sink/table"
)

// Limits of power.
const (
	// overLimit is the tolerated excess of a row's average power over the board's limit, as a share.
	overLimit = 0.05
	// idleShare bounds the median of power / limit: a board without work takes a tenth, and published tables
	// have at least 0.39.
	idleShare = 0.15
	// mostWatts is far above the limit of any board.
	mostWatts = 1e4
)

// Power checks that the column power lies above zero and at most 5 % above the limit of the system, or of
// the row's own power_limit if that is lower or no system is known, and that it is not the power of an idle
// board. ok is false if there is no such
// column.
func (t *Table) Power() (out Result, ok bool) {
	watts, err := table.Float64s(t.Rec, "power")
	if err != nil {
		return out, false
	}

	own, _ := table.Float64s(t.Rec, "power_limit") // nil if there is none
	var values, shares []float64
	for i := range watts.Values {
		v, known := watts.At(i)
		limit := t.powerLimit(own, i)

		switch {
		case !known:
			out.skip(i, "power is null")
			continue
		case math.IsNaN(v) || math.IsInf(v, 0) || v <= 0:
			out.bad(i, math.Inf(1), "(power is "+number(v)+")")
			continue
		case limit == 0:
			out.skip(i, "no power limit is known")
		case v > limit*(1+overLimit):
			out.bad(i, v/limit, fmt.Sprintf("(%s W, and the limit is %s W)", number(v), number(limit)))
		}
		values = append(values, v)
		if limit > 0 {
			shares = append(shares, v/limit)
		}
	}

	slices.Sort(shares)
	switch n := len(values); {
	case n < enoughRows:

	case slices.Min(values) == slices.Max(values):
		out.Problems = append(out.Problems, fmt.Sprintf("all %d values of power are %s W: was it read once?", n,
			number(values[0])))

	case len(shares) >= enoughRows && rank(shares, 0.5) < idleShare:
		out.Problems = append(out.Problems, fmt.Sprintf("half of %d rows take less than %s %% of the power limit: was the "+
			"board idle when its power was read, or is power in another unit?", len(shares), number(100*idleShare)))
	}

	return out, true
}

// powerLimit returns the limit of a row in watts, 0 if none is known.
func (t *Table) powerLimit(own *table.Col[float64], row int) float64 {
	limit := 0.0
	if t.System != nil {
		limit = t.System.GPU.Power
	}

	if v, ok := own.At(row); ok && v > 0 && v <= mostWatts && (limit == 0 || v < limit) {
		return v
	}
	return limit
}
