package trace

import (
	"cmp"
	"slices"
	"strings"
)

// numberedStep marks steps with a number of their own.
const numberedStep = "ProfilerStep#"

// stepNames are the prefixes of ranges that mark steps, in order of preference: the profiler's, vLLM's,
// SGLang's.
var stepNames = []string{numberedStep, "execute_context_", "run_batch"}

func isStep(name string) bool { return stepRank(name) >= 0 }

// stepRank returns the index of the mark of a step, or -1 if the name marks none.
func stepRank(name string) int {
	// Python functions are written as "file.py(line): name".
	if strings.HasSuffix(name, ": run_batch") {
		return len(stepNames) - 1
	}
	return slices.IndexFunc(stepNames, func(p string) bool { return strings.HasPrefix(name, p) })
}

// steps returns the ranges that are the steps of a device, sorted by time. It uses the most preferred mark
// that occurs, and the profiler's projection onto the device if available. Ranges of other devices, or of the host in
// processes that run kernels of other devices, are no steps of this one. The profiler projects a step onto each
// stream. Such ranges are merged if their name has the number of the step, else if they overlap.
func (r *recording) steps(d *device) []span {
	process := processOf(d.pid, d.rank)
	isOwn := func(s span) bool {
		if s.onGPU {
			return s.origin == d.origin || s.device == d.pid
		}
		return s.process == process || slices.Contains(d.processes, s.process)
	}

	out := slices.Clone(r.ranges)
	for _, gpu := range []bool{false, true} {
		if slices.ContainsFunc(out, func(s span) bool { return s.onGPU == gpu && isOwn(s) }) {
			out = slices.DeleteFunc(out, func(s span) bool { return s.onGPU == gpu && !isOwn(s) })
		}
	}

	best, gpu := len(stepNames), false
	for _, s := range out {
		if k := stepRank(s.name); k < best || k == best && s.onGPU && !gpu {
			best, gpu = k, s.onGPU
		}
	}

	out = slices.DeleteFunc(out, func(s span) bool { return stepRank(s.name) != best || s.onGPU != gpu })
	slices.SortStableFunc(out, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	merged, last := out[:0], map[string]int{} // last is the last range with a name
	for _, s := range out {
		i, ok := last[s.name]
		if ok && (stepNames[best] == numberedStep || i == len(merged)-1 && s.start < merged[i].end) {
			merged[i].end = max(merged[i].end, s.end)
			continue
		}
		last[s.name] = len(merged)
		merged = append(merged, s)
	}

	return merged
}
