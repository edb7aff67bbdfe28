package stats

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRank(t *testing.T) {
	t.Parallel()
	v := []float64{1, 2, 3, 4}
	for q, want := range map[float64]float64{0: 1, 0.25: 1, 0.26: 2, 0.5: 2, 0.75: 3, 0.95: 4, 1: 4, -1: 1, 2: 4} {
		if got := Rank(v, q); got != want {
			t.Errorf("Rank(%v) = %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(Rank(nil, 0.5)) || !math.IsNaN(Interpolated(nil, 0.5)) {
		t.Error("a quantile of nothing is a number")
	}
}

// TestInterpolated: expected values are those of numpy.percentile.
func TestInterpolated(t *testing.T) {
	t.Parallel()
	v := []float64{0.1, 0.2, 0.4, 0.8}
	for q, want := range map[float64]float64{0: 0.1, 0.1: 0.13, 0.5: 0.30000000000000004, 0.9: 0.6800000000000002,
		1: 0.8} {
		if got := Interpolated(v, q); got != want {
			t.Errorf("Interpolated(%v) = %v, want %v", q, got, want)
		}
	}
	inf := math.Inf(1)
	if got := Interpolated([]float64{1, inf, inf}, 0.9); got != inf {
		t.Errorf("between two infinities: %v", got)
	}
}

// TestQuantilesAreOrdered: both stay within the values and grow with q, and the
// interpolated one lies between neighbours.
func TestQuantilesAreOrdered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e6, 1e6), 1, 30).Draw(t, "values")
		slices.Sort(v)
		p, q := rapid.Float64Range(0, 1).Draw(t, "p"), rapid.Float64Range(0, 1).Draw(t, "q")
		p, q = min(p, q), max(p, q)
		for name, f := range map[string]func([]float64, float64) float64{"Rank": Rank, "Interpolated": Interpolated} {
			a, b := f(v, p), f(v, q)
			if !(a <= b+1e-9 && a >= v[0]) || !(b <= v[len(v)-1]) {
				t.Fatalf("%s of %v: %v at %v, %v at %v", name, v, a, p, b, q)
			}
		}
		if r := Rank(v, q); !slices.Contains(v, r) {
			t.Fatalf("Rank gives %v, which is none of %v", r, v)
		}
	})
}
