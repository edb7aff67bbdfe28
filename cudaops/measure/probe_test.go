package measure_test

import (
	"math"
	"testing"

	"aicplan/cudaops/measure"
)

// TestProbe gives the session estimates of the power that are up to a fifth
// wrong: how far each lowers the clock at once makes up for part of it.
func TestProbe(t *testing.T) {
	t.Parallel()
	cases := hungry(150)
	for i := range cases {
		cases[i].latency = min(cases[i].latency, 4e-3)
	}
	width := func(probe bool) (p5, p95, rate float64) {
		var off []float64
		for seed := uint64(1); seed <= 2; seed++ {
			got := sustained(t, cases, seed, func(o *outcome, _ []*gpuTarget, jobs []*measure.Job) {
				o.gpu.FastWatts = 520
				o.session.Tuning.Probe = probe
				for i, j := range jobs {
					j.Watts *= 0.8 + 0.4*float64(i*7%11)/10
				}
			})
			for i, c := range cases {
				if got.errs[i] != nil {
					t.Fatal(got.errs[i])
				}
				if c.watts > 560 {
					truth, _ := aloneOn(c, 5, 520)
					off = append(off, got.results[i].Latency/1e3/truth)
				}
			}
			rate = float64(len(cases)) / got.elapsed.Seconds()
		}
		return measure.Percentile(off, .05), measure.Percentile(off, .95), rate
	}
	p5, p95, rate := width(false)
	q5, q95, probed := width(true)
	t.Logf("p5 %.4f p95 %.4f at %.1f/s without, %.4f %.4f at %.1f/s with", p5, p95, rate, q5, q95, probed)
	if !(math.Max(1-q5, q95-1) <= 0.85*math.Max(1-p5, p95-1)) {
		t.Error("the probe is of no use")
	}
}
