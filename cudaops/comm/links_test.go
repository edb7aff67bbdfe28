package comm

import (
	"testing"

	"aicplan/cudaops/nvml"
)

func TestCountLinks(t *testing.T) {
	sw, toB, toC := nvml.Link{Switch: true}, nvml.Link{Remote: "b"}, nvml.Link{Remote: "c"}
	for _, c := range []struct {
		name      string
		out, back []nvml.Link
		want      int
	}{
		{"through switches, one link of the other down", []nvml.Link{sw, sw, sw}, []nvml.Link{sw, sw}, 2},
		{"direct", []nvml.Link{toB, toB, toC}, []nvml.Link{{Remote: "a"}, {Remote: "a"}}, 2},
		{"only the other has a switch", []nvml.Link{toC}, []nvml.Link{sw}, 0},
		{"none", nil, nil, 0},
	} {
		if got := countLinks(c.out, c.back, "b"); got != c.want {
			t.Errorf("%s: %d links, want %d", c.name, got, c.want)
		}
	}
}
