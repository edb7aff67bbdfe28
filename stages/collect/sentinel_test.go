package collect

import (
	"math"
	"testing"
)

// TestDeviations: the median of the nodes is the measure, case by case; one case
// that is off moves nothing, and a node that is alone is not judged.
func TestDeviations(t *testing.T) {
	seen := map[string]map[string][]float64{
		"a": {"n0": {1.00, 1.02, 5}, "n1": {1.0}, "n2": {1.2}},
		"b": {"n0": {2.0}, "n1": {2.0}, "n2": {2.4}},
		"c": {"n0": {9.0}, "n1": {3.0}, "n2": {3.6}},
		"d": {"n3": {1.0}},
	}
	got := deviationsOf(seen)
	for node, want := range map[string]float64{"n0": 0, "n1": 0, "n2": 0.2} {
		if v, ok := got[node]; !ok || !(math.Abs(v-want) <= 0.03) {
			t.Errorf("%s: %v, want about %v", node, v, want)
		}
	}
	if v, ok := got["n3"]; ok {
		t.Errorf("n3 is judged by itself: %v", v)
	}
}
