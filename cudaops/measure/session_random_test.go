package measure_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"aicplan/cudaops/measure"
)

// TestEveryCaseEndsOnce runs sessions with random cases, wrong estimates, disturbed visits and failures on devices with
// and without a readable or locked clock.
func TestEveryCaseEndsOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 77))
		cases := make([]gpuCase, 1+r.IntN(30))
		for i := range cases {
			cases[i] = gpuCase{2e-6 * math.Pow(2e5, r.Float64()), 100 + 900*r.Float64(), r.Float64()}
			if r.IntN(4) == 0 {
				cases[i].latency = 0.07 + 0.06*r.Float64() // about longLook
			}
		}
		failing := []float64{0, 0.002, 0.02, 0.5}[r.IntN(4)]
		onlyLearned := r.IntN(4) > 0
		ends := make([]int, len(cases))
		learned(t, cases, func(o *outcome, targets []*gpuTarget, jobs []*measure.Job) {
			o.gpu.Noise = []float64{0.002, 0.05, 0.3}[r.IntN(3)]
			if r.IntN(3) == 0 {
				o.session.Level = 0
			}
			if r.IntN(5) == 0 {
				o.session.Tuning.HotPass = 0
			}
			if r.IntN(10) == 0 {
				o.session.Ready = nil
			}
			o.session.Tuning.Locked = r.IntN(8) == 0
			left := 20_000 // bursts
			for i, j := range jobs {
				j.Learn = onlyLearned || r.IntN(2) == 0
				j.Seconds *= math.Pow(10, 0.4*r.NormFloat64())
				targets[i].Disturbed = map[int]bool{r.IntN(4): true}
				targets[i].Fail = func(int) error {
					if left--; left < 0 {
						t.Fatalf("seed %d does not end", seed)
					}
					if r.Float64() < failing {
						return errors.New("gone")
					}
					return nil
				}
				done := j.Done
				j.Done = func(m measure.Measured, err error) {
					ends[i]++
					done(m, err)
				}
			}
		})
		for i, n := range ends {
			if n != 1 {
				t.Fatalf("seed %d: case %d ended %d times", seed, i, n)
			}
		}
	}
}
