// Package stats has the two quantiles that figures here are made of. Every
// package may import it; it imports nothing of the project. Mean, deviation and
// the like are gonum's.
package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// Rank is the quantile by nearest rank of ascending values, q in 0..1: always
// one of the values, as for ratios of rows that a report points at. NaN of none.
func Rank(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return stat.Quantile(min(max(q, 0), 1), stat.Empirical, sorted, nil)
}

// Interpolated is the quantile of ascending values by linear interpolation
// between the closest ranks, q in 0..1, to the last bit what numpy's percentile
// gives by default: for few samples, and where figures are compared with those
// of Python tools. gonum's LinInterp places ranks otherwise. NaN of none.
func Interpolated(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := min(max(q, 0), 1) * float64(len(sorted)-1)
	lo := int(math.Floor(at))
	hi := min(lo+1, len(sorted)-1)
	a, b, t := sorted[lo], sorted[hi], at-float64(lo)
	switch {
	case a == b: // also two infinities, whose difference is none
		return a
	case t == 0:
		return a
	case t >= 0.5:
		return b - (b-a)*(1-t)
	}
	return a + (b-a)*t
}
