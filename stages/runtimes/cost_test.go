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
// 400 products of vLLM, of which 118 were limited, take as long as recorded on an H200.
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
		if longer := at > point+0.05; !(at > 0) || longer != c.longer {
			t.Errorf("%s takes %v s at the sustained point and %v s at the recovered one", name, at, point)
		}
	}

	sum := 282*seconds(gpu, with(same), 20e-6) + 118*seconds(gpu, with(same), 0.3e-3)
	if !(sum >= 21.5/1.2 && sum <= 27.6*1.2) {
		t.Errorf("400 products are estimated at %.1f s; two runs took 21.5 and 27.6 s", sum)
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
