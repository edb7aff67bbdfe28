package facets

import (
	"math"
	"slices"
)

// Sorted returns the finite values of v in ascending order.
func Sorted(v []float64) []float64 {
	out := make([]float64, 0, len(v))
	for _, x := range v {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out = append(out, x)
		}
	}

	slices.Sort(out)
	return out
}
