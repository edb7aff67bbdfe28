package measure_test

import (
	"testing"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/measure/measuretest"
)

// TestSessionNoisyClock reads the ready clock with coarse timers, and once far
// too high: a device that never leaves its clock is not waited for.
func TestSessionNoisyClock(t *testing.T) {
	t.Parallel()
	cases := make([]gpuCase, 200)
	for i := range cases {
		cases[i] = gpuCase{latency: float64(3+i%20) * 1e-6, watts: 60, share: 1}
	}
	for name, change := range map[string]func(*measuretest.GPU){
		"32 ns":  func(g *measuretest.GPU) { g.TimerStep = 32 },
		"500 ns": func(g *measuretest.GPU) { g.TimerStep = 500 },
		"1 us":   func(g *measuretest.GPU) { g.TimerStep = time.Microsecond },
		"glitch": func(g *measuretest.GPU) { g.Glitch = map[int]float64{1: 400, 90: 600} },
	} {
		o := session(t, cases, 1, func(o *outcome, _ []*gpuTarget, _ []*measure.Job) {
			o.gpu.Gate = 20 * time.Microsecond
			change(o.gpu)
		})
		throttled := 0
		for i := range cases {
			if o.errs[i] != nil {
				t.Fatal(name, o.errs[i])
			}
			if x := o.results[i].Throttled; x != nil && *x {
				throttled++
			}
		}
		if s := o.session; s.Visits > 440 || throttled > 0 || s.Waited > 2*time.Second {
			t.Errorf("%s: %d visits to %d cases, %d discarded, waited %v, %d rows throttled", name, s.Visits, len(cases),
				s.Discarded, s.Waited, throttled)
		}
	}
}
