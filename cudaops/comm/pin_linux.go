package comm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/proc"
)

// coreFor selects a CPU core for a rank, different for each rank, and returns it together with the CPUs
// that the calling thread may currently use. Two ranks on the same core launch at half speed, and launch
// time dominates small messages. core is nil if the topology is unknown or there are too few cores.
func coreFor(no int, pci string) (all, core []int) {
	all, err := proc.CPUs()
	if err != nil {
		return nil, nil
	}
	return all, pick(coresOf(os.DirFS("/sys"), all, pci), no)
}

// nodeRanks is the number of ranks for which cores are spread.
const nodeRanks = 8

// pick spreads the ranks over the cores. In virtual machines the host's topology is unknown, but
// neighboring CPUs often share a core. The first core is left to interrupts.
func pick(cores [][]int, no int) []int {
	stride := len(cores) / (nodeRanks + 1)
	if stride == 0 {
		if no+2 >= len(cores) {
			return nil
		}
		return cores[no+1]
	}

	at := (no + 1) * stride
	if at >= len(cores) {
		return nil
	}

	return cores[at]
}

// coresOf groups the allowed CPUs by physical core in ascending order. Cores near the device come first.
func coresOf(sys fs.FS, allowed []int, pci string) [][]int {
	near := map[int]bool{}
	if text, err := fs.ReadFile(sys, filepath.Join("bus/pci/devices", pci, "local_cpulist")); err == nil {
		for _, c := range parseCPUs(string(text)) {
			near[c] = true
		}
	}

	seen := map[string]bool{}
	var local, far [][]int
	for _, c := range allowed {
		text, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", c))
		if err != nil {
			return nil
		}

		key := strings.TrimSpace(string(text))
		if seen[key] {
			continue
		}

		seen[key] = true
		var core []int
		for _, s := range parseCPUs(key) {
			if slices.Contains(allowed, s) {
				core = append(core, s)
			}
		}

		if len(near) == 0 || near[c] {
			local = append(local, core)
		} else {
			far = append(far, core)
		}
	}

	return append(local, far...)
}

// parseCPUs parses a list such as "0-3,8,10-11". It skips invalid parts.
func parseCPUs(text string) []int {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(lo)
		if err != nil {
			continue
		}

		b := a
		if isRange {
			if b, err = strconv.Atoi(hi); err != nil || b < a || b-a > 1<<16 {
				continue
			}
		}

		for c := a; c <= b; c++ {
			out = append(out, c)
		}
	}

	return out
}
