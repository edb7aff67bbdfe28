package runtimes

import (
	"math"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/engine/stage"
	"aicplan/sink/physics"
)

// TestPythonSeconds: products that the power cap holds run for a second longer at
// the sustained point, and nothing else does.
func TestPythonSeconds(t *testing.T) {
	t.Parallel()
	gpu := &stage.Runtime{Kind: "python"}
	processor := &stage.Runtime{Kind: "python", Options: map[string]cty.Value{"device": cty.StringVal("cpu")}}
	with := func(change func(*measure.Settings)) measure.Settings {
		s := measure.Settings{Protocol: measure.ProtocolAdaptive, OperatingPoint: measure.PointSustained, MinSamples: 3, Passes: 2, MinBlockSeconds: 60e-6}
		change(&s)
		return s
	}
	same := func(*measure.Settings) {}
	for name, c := range map[string]struct {
		rt      *stage.Runtime
		s       measure.Settings
		seconds float64
		want    float64 // of it for drawing much power
	}{
		"a large product":        {gpu, with(same), 1e-3, pythonHeavySoak},
		"a small one":            {gpu, with(same), 20e-6, 0},
		"recovered":              {gpu, with(func(s *measure.Settings) { s.OperatingPoint = measure.PointRecovered }), 1e-3, 0},
		"the reference protocol": {gpu, with(func(s *measure.Settings) { s.Protocol = measure.ProtocolReference }), 1e-3, 0},
		"a warm-up of its own":   {gpu, with(func(s *measure.Settings) { s.WarmupSeconds = 0.1 }), 1e-3, 0},
		"a processor":            {processor, with(same), 1e-3, 0},
	} {
		heavy := pythonSeconds(c.rt, c.s, physics.Kernel{Seconds: c.seconds, ComputeBound: true})
		light := pythonSeconds(c.rt, c.s, physics.Kernel{Seconds: c.seconds})
		if !(light > 0) || !(math.Abs(heavy-light-c.want) <= 1e-9) {
			t.Errorf("%s takes %v s, and %v s where its operations bound it; want %v s more", name, light, heavy, c.want)
		}
	}
}
