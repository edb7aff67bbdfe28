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
		gpus    []GPU
		hiding  string
		count   int
		want    []target
	}{
		"all":                   {nil, gpus, "", -1, []target{{0, "GPU-a"}, {1, "GPU-b"}, {2, "GPU-c"}}},
		"all that are left":     {nil, gpus, "2", 1, []target{{0, ""}}},
		"one of the node's":     {[]int{2}, gpus, "2", -1, []target{{2, "GPU-c"}}},
		"one that is not there": {[]int{7}, gpus, "", -1, []target{{7, ""}}},
		"no library":            {nil, nil, "", -1, []target{{0, ""}}},
		"nothing is left":       {nil, gpus, "none", 0, []target{{0, ""}}},
	} {
		got := targets(c.devices, c.gpus, c.hiding, func() int {
			if c.count < 0 {
				t.Errorf("%s: the driver was asked", name)
			}
			return c.count
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
