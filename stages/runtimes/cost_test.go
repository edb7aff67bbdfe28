package runtimes

import (
	"math"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/ops"
	"aicplan/engine/stage"
	"aicplan/sink/rules"
)

// TestPythonSeconds checks that only a case limited by the power cap takes longer at the sustained point, and that
// cases of vLLM take as long as recorded on an H200 after the samples of the ramp.
func TestPythonSeconds(t *testing.T) {
	t.Parallel()
	gpu := &stage.Runtime{Kind: "python"}
	processor := &stage.Runtime{Kind: "python", Options: map[string]cty.Value{"device": cty.StringVal("cpu")}}
	with := func(change func(*measure.Settings)) measure.Settings {
		s := measure.Settings{Protocol: measure.ProtocolAdaptive, OperatingPoint: measure.PointSustained, MinSamples: 3,
			Passes: 2, MinBlockSeconds: 60e-6}
		change(&s)
		return s
	}
	same := func(*measure.Settings) {}
	recovered := func(s *measure.Settings) { s.OperatingPoint = measure.PointRecovered }
	seconds := func(rt *stage.Runtime, s measure.Settings, kernel float64) float64 {
		return pythonKind().CaseSeconds(rt, s, rules.Kernel{Seconds: kernel})
	}
	for name, c := range map[string]struct {
		rt     *stage.Runtime
		change func(*measure.Settings)
		kernel float64
		longer bool
	}{
		"a large product":        {gpu, same, 1e-3, true},
		"a small one":            {gpu, same, 5e-6, false},
		"the reference protocol": {gpu, func(s *measure.Settings) { s.Protocol = measure.ProtocolReference }, 1e-3, false},
		"a warm-up of its own":   {gpu, func(s *measure.Settings) { s.WarmupSeconds = 0.1 }, 1e-3, false},
		"a processor":            {processor, same, 1e-3, false},
	} {
		at := seconds(c.rt, with(c.change), c.kernel)
		point := seconds(c.rt, with(func(s *measure.Settings) { c.change(s); recovered(s) }), c.kernel)
		if longer := at > point+0.01; !(at > 0) || longer != c.longer {
			t.Errorf("%s takes %v s at the sustained point and %v s at the recovered one", name, at, point)
		}
	}

	if long := seconds(gpu, with(same), 0.4); long < 2 || long > 2.1 {
		t.Errorf("a case of 0.4 s is estimated at %.2f s; five executions run", long)
	}
	for op, r := range map[string]struct {
		short, long int // cases up to 0.06 ms and above
		cold        bool
		seconds     float64
	}{
		"gemm": {1066, 118, false, 17.5}, "attention_context": {446, 506, false, 21.8}, "moe": {531, 1089, false, 39.1},
		"attention_generation": {1035, 299, true, 57.6},
	} {
		each := func(kernel float64) float64 {
			return pythonKind().CaseSeconds(gpu, with(same), rules.Kernel{Seconds: kernel, Collector: true, Cold: r.cold})
		}
		sum := float64(r.short)*each(20e-6) + float64(r.long)*each(0.15e-3)
		if sum < r.seconds/1.15 || sum > r.seconds*1.15 {
			t.Errorf("%s is estimated at %.1f s and took %.1f s", op, sum, r.seconds)
		}
	}
}

// TestCudaOpSeconds checks that a layer takes its fixed duration. 15 layers took 39.8 s on an H200.
func TestCudaOpSeconds(t *testing.T) {
	t.Parallel()
	s := measure.Defaults()
	if all := 15 * cudaKind().OpSeconds(ops.OpLayer, s); math.Abs(all/39.8-1) > 0.05 {
		t.Errorf("15 layers take %g s", all)
	}
	power := s
	power.Power = true
	if more := cudaKind().OpSeconds(ops.OpLayer, power) - cudaKind().OpSeconds(ops.OpLayer, s); more < s.PowerMinSeconds {
		t.Errorf("a layer whose power is measured takes %g s more", more)
	}
	if got := cudaKind().OpSeconds(ops.OpGEMM, s); got != 0 {
		t.Errorf("a product takes %g s whatever it is", got)
	}
	for _, other := range []func(*measure.Settings){
		func(s *measure.Settings) { s.Protocol = measure.ProtocolReference },
		func(s *measure.Settings) { s.OperatingPoint = measure.PointRecovered },
	} {
		s := measure.Defaults()
		other(&s)
		if got := cudaKind().OpSeconds(ops.OpLayer, s); got != 0 {
			t.Errorf("a layer that does not run until it has settled takes %g s", got)
		}
	}
}
