package workload

import (
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
)

func gaps(c Arrivals, n int) []float64 {
	s := NewSchedule(c)
	var out []float64
	last := s.Next()
	for range n {
		at := s.Next()
		out = append(out, (at - last).Seconds())
		last = at
	}
	return out
}

func TestMeanAndSpread(t *testing.T) {
	const n = 20000
	for _, c := range []struct {
		config Arrivals
		cv     float64 // standard deviation over mean
	}{
		{Arrivals{Pattern: Constant, Rate: 50}, 0},
		{Arrivals{Pattern: Poisson, Rate: 50}, 1},
		{Arrivals{Pattern: Gamma, Rate: 50, Smoothness: 4}, 0.5},
		{Arrivals{Pattern: Gamma, Rate: 50, Smoothness: 0.25}, 2},
	} {
		mean, sd := stat.MeanStdDev(gaps(c.config, n), nil)
		if !(math.Abs(mean*50-1) <= 0.05) {
			t.Errorf("%+v: the mean gap is %v, want 0.02", c.config, mean)
		}
		if !(math.Abs(sd/mean-c.cv) <= 0.06*max(c.cv, 1e-3)+1e-6) {
			t.Errorf("%+v: the variation is %v, want %v", c.config, sd/mean, c.cv)
		}
	}
}

func TestSeedsDiffer(t *testing.T) {
	a, b, other := gaps(Arrivals{Pattern: Poisson, Rate: 1}, 5), gaps(Arrivals{Pattern: Poisson, Rate: 1},
		5), gaps(Arrivals{Pattern: Poisson, Rate: 1, Seed: 1}, 5)
	for i := range a {
		if a[i] != b[i] {
			t.Fatal("seed 0 is not repeatable")
		}
	}
	if a[0] == other[0] {
		t.Error("seeds 0 and 1 give the same gaps")
	}
}

func TestRamp(t *testing.T) {
	s := NewSchedule(Arrivals{Pattern: Constant, Rate: 100, Ramp: 2 * time.Second})
	inRamp := 0
	var at time.Duration
	for at < 3*time.Second {
		if at = s.Next(); at < 2*time.Second {
			inRamp++
		}
	}
	// The integral of a linear ramp to 100/s in 2 s.
	if inRamp != 100 {
		t.Errorf("%d requests within the ramp, want 100", inRamp)
	}
	if gap := s.Next() - at; gap != 10*time.Millisecond {
		t.Errorf("after the ramp the gap is %v", gap)
	}
}
