package measure_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"aicplan/cudaops/measure"
)

// TestCapturesAreAveraged has cases whose graphs are captured twice, and captures
// that a launch takes longer of by chance: rows are the mean over both, of whatever
// else disturbs the fastest, and repeat better than with one capture.
func TestCapturesAreAveraged(t *testing.T) {
	t.Parallel()
	cases := workload(80)
	run := func(seed uint64, captures int, point string) outcome {
		chance := rand.New(rand.NewPCG(seed, 77))
		return session(t, cases, seed, func(o *outcome, targets []*gpuTarget, _ []*measure.Job) {
			o.session.Settings.OperatingPoint = point
			o.session.Tuning.CapWatts = o.gpu.CapWatts
			for i, x := range targets {
				for range captures {
					// Two levels a few percent apart, as of products with weights of 40 to 100 MB.
					x.Launches = append(x.Launches, 0.04*cases[i].latency*float64(x.Graph)*float64(chance.IntN(2)))
				}
			}
		})
	}
	for _, point := range []string{measure.PointRecovered, measure.PointSustained} {
		spread := func(captures int) float64 {
			var runs [][]float64
			for seed := range uint64(3) {
				o := run(seed+1, captures, point)
				var row []float64
				for i, r := range o.results {
					if o.errs[i] != nil {
						t.Fatal(o.errs[i])
					}
					row = append(row, r.Latency)
				}
				runs = append(runs, row)
			}
			return measure.Mean(spreads(runs)) - 1
		}
		one, two := spread(1), spread(2)
		if !(two <= 0.8*one) {
			t.Errorf("%s: rows of three runs differ by %.4f with two captures, by %.4f with one", point, two, one)
		}
	}
	// One fast and one slow capture: the row is the mean, though single visits were
	// disturbed, and second looks go to the capture that does not agree with itself.
	o := session(t, cases[:1], 4, func(o *outcome, targets []*gpuTarget, _ []*measure.Job) {
		o.gpu.Noise = 0
		targets[0].Launches = []float64{0, 0.04 * cases[0].latency * float64(targets[0].Graph)}
	})
	r := o.results[0]
	if want := 1.02 * cases[0].latency * 1e3; !(math.Abs(r.Latency/want-1) <= 0.002) {
		t.Errorf("latency %.6f ms, the mean of both captures is %.6f", r.Latency, want)
	}
	if r.Passes != 4 || !(math.Abs(r.PassSpread-0.04) <= 0.004) {
		t.Errorf("%d visits that are %.4f apart, want 4 and 0.04", r.Passes, r.PassSpread)
	}
}
