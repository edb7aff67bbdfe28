package measure

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"aicplan/sink/base/stats"
)

// Median returns the middle of xs (the mean of the two middle values when their
// number is even); NaN for none. xs is not changed.
func Median(xs []float64) float64 { return Percentile(xs, 0.5) }

// Percentile returns the value below which the share p of xs lies, with linear
// interpolation between neighbours; NaN for no values. xs is not changed.
func Percentile(xs []float64, p float64) float64 {
	return stats.Interpolated(slices.Sorted(slices.Values(xs)), p)
}

// Mean returns the arithmetic mean; NaN for no values.
func Mean(xs []float64) float64 { return stat.Mean(xs, nil) }

// Scatter is RelStdev; nil for fewer than two values.
func Scatter(xs []float64) *float64 {
	if len(xs) < 2 {
		return nil
	}
	v := RelStdev(xs)
	return &v
}

// RelStdev returns the standard deviation (n-1) over the mean; 0 for fewer than
// two values.
func RelStdev(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	mean, stdev := stat.MeanStdDev(xs, nil)
	return stdev / mean
}

// Spread returns max/min - 1; 0 for fewer than two values.
func Spread(xs []float64) float64 {
	if len(xs) < 2 {
		return 0
	}
	return slices.Max(xs)/slices.Min(xs) - 1
}
