package measure_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// TestSettledMakesBatchesBrief measures batches of which nothing is known in turn.
// Later ones need no equilibrium of their own, and their rows are as near to what the cases take
// alone as those of the first.
func TestSettledMakesBatchesBrief(t *testing.T) {
	t.Parallel()
	const fast = 380
	batch := func(n int, seed uint64) []gpuCase {
		rng := rand.New(rand.NewPCG(seed, 7))
		cases := make([]gpuCase, n)
		for i := range cases {
			cases[i] = gpuCase{latency: 50e-6 * math.Exp(3*rng.Float64()), watts: 560 + 240*rng.Float64(), share: 0.9}
		}
		return cases
	}
	run := func(settled *measure.Settled) (errors []float64, hot time.Duration) {
		for b := range uint64(4) {
			cases := batch(40, b+1)
			var began, ended time.Duration
			got := sustained(t, cases, b+1, func(o *outcome, _ []*measuretest.GPUTarget, jobs []*measure.Job) {
				o.gpu.FastWatts = fast
				o.session.Tuning.HotPass = time.Second
				o.session.Settled = settled
				for _, j := range jobs {
					j.Learn, j.Watts = true, 240
				}
				o.session.Trace = func(v measure.Visit) {
					if v.Hot {
						if began == 0 {
							began = v.At
						}
						ended = v.At
					}
				}
			})
			if b == 0 {
				continue // all that the first one knows is its own
			}
			hot += ended - began
			for i, c := range cases {
				if got.errs[i] != nil || got.results[i].ClockSlope == nil {
					t.Fatalf("case %d: %+v, %v", i, got.results[i], got.errs[i])
				}
				seconds, _ := aloneOn(c, 5, fast)
				errors = append(errors, got.results[i].Latency/1e3/seconds)
			}
		}
		return errors, hot / 3
	}
	plain, long := run(nil)
	known, brief := run(&measure.Settled{})
	off := func(x []float64) float64 { return math.Max(1-measure.Percentile(x, .05), measure.Percentile(x, .95)-1) }
	t.Logf("each batch alone: p5 %.4f p50 %.4f p95 %.4f in %v; with the clocks of earlier ones: %.4f %.4f %.4f in %v",
		measure.Percentile(plain, .05), measure.Median(plain), measure.Percentile(plain, .95), long,
		measure.Percentile(known, .05), measure.Median(known), measure.Percentile(known, .95), brief)
	if !(brief < long/2) {
		t.Errorf("a batch whose clocks are known takes %v, another one %v", brief, long)
	}
	if !(off(known) <= 0.04 && off(known) <= 1.1*off(plain)) {
		t.Errorf("rows are %.4f from what cases take alone, %.4f without earlier batches", off(known), off(plain))
	}
}
