package doctor

import (
	"slices"
	"testing"

	"aicplan/cudaops/nvml"
)

// TestTargets uses a node with devices hidden from this process. The driver counts only the visible
// devices, NVML counts all.
func TestTargets(t *testing.T) {
	var gpus []GPU
	for i, uuid := range []string{"GPU-a", "GPU-b", "GPU-c"} {
		gpus = append(gpus, GPU{Identity: nvml.Identity{Index: i, UUID: uuid}})
	}
	for name, c := range map[string]struct {
		devices []int
		count   int
		want    []target
	}{
		"all":                   {nil, 3, []target{{0, ""}, {1, ""}, {2, ""}}},
		"all that are left":     {nil, 1, []target{{0, ""}}},
		"one of the node's":     {[]int{2}, 1, []target{{2, "GPU-c"}}},
		"one that is not there": {[]int{7}, 3, []target{{7, ""}}},
		"nothing is left":       {nil, 0, []target{{0, ""}}},
	} {
		if got := targets(c.devices, gpus, c.count); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
