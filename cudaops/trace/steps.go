package trace

import (
	"cmp"
	"slices"
	"strings"
)

// stepNames are the prefixes of ranges that mark steps, in order of preference: the profiler's, vLLM's,
// SGLang's.
var stepNames = []string{"ProfilerStep#", "execute_context_", "run_batch"}

func isStep(name string) bool {
	for _, p := range stepNames {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	// Python functions are written as "file.py(line): name".
	return strings.HasSuffix(name, ": run_batch")
}

func stepRank(name string) int {
	for i, p := range stepNames {
		if strings.HasPrefix(name, p) {
			return i
		}
	}
	return len(stepNames) - 1
}

// steps returns the ranges that are the steps of a device, sorted by time. It uses the most preferred mark
// that occurs, and the profiler's projection onto the device if available. Overlapping ranges with the same
// name on different streams are merged.
func (r *recording) steps(d *device) []span {
	best, gpu, own := len(stepNames), false, false
	isOwn := func(s span) bool {
		return s.onGPU && (s.origin == d.origin || s.device == d.pid)
	}
	for _, s := range r.ranges {
		own = own || isOwn(s)
	}

	ranges := make([]span, 0, len(r.ranges))
	for _, s := range r.ranges {
		if own && s.onGPU && !isOwn(s) {
			continue
		}
		ranges = append(ranges, s)
	}

	for _, s := range ranges {
		if k := stepRank(s.name); k < best || k == best && s.onGPU && !gpu {
			best, gpu = k, s.onGPU
		}
	}

	var out []span
	for _, s := range ranges {
		if stepRank(s.name) == best && s.onGPU == gpu {
			out = append(out, s)
		}
	}

	slices.SortStableFunc(out, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	merged := out[:0]
	for _, s := range out {
		if n := len(merged); n > 0 && merged[n-1].name == s.name && s.start < merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, s.end)
			continue
		}
		merged = append(merged, s)
	}

	return merged
}
