package measure_test

import (
	"testing"

	"aicplan/cudaops/measure"
)

// TestCapturesOfSettings: only visits of sustained sessions leave the time to
// prepare a case more than once.
func TestCapturesOfSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		point, protocol string
		want            int
	}{
		{measure.PointSustained, measure.ProtocolAdaptive, 3},
		{measure.PointRecovered, measure.ProtocolAdaptive, 1},
		{measure.PointSustained, measure.ProtocolReference, 1},
	} {
		s := measure.Defaults()
		s.OperatingPoint, s.Protocol, s.Passes = c.point, c.protocol, 3
		if got := s.Captures(); got != c.want {
			t.Errorf("%s, %s: %d captures, want %d", c.point, c.protocol, got, c.want)
		}
	}
}
