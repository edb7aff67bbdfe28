package measure

import (
	"math"
	"slices"
)

// Median returns the middle of xs (the mean of the two middle values when their
// number is even); NaN for none. xs is not changed.
func Median(xs []float64) float64 { return Percentile(xs, 0.5) }

// Percentile returns the value below which the share p of xs lies, with linear
// interpolation between neighbours; NaN for no values. xs is not changed.
func Percentile(xs []float64, p float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	at := p * float64(len(s)-1)
	lo := int(math.Floor(at))
	lo = min(max(lo, 0), len(s)-1)
	hi := min(lo+1, len(s)-1)
	return s[lo] + (s[hi]-s[lo])*(at-float64(lo))
}

// Mean returns the arithmetic mean; NaN for no values.
func Mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// Scatter is RelStdev; nil for fewer than two values.
func Scatter(xs []float64) *float64 {
	if len(xs) < 2 {
		return nil
	}
	v := RelStdev(xs)
	return &v
}

// RelStdev returns the standard deviation (n-1) over the mean; 0 for fewer than
// two values, which say nothing about it.
func RelStdev(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	m := Mean(xs)
	sum := 0.0
	for _, x := range xs {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum/float64(len(xs)-1)) / m
}

// Spread returns max/min - 1; 0 for fewer than two values.
func Spread(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	return slices.Max(xs)/slices.Min(xs) - 1
}
