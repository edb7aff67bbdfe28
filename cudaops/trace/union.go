package trace

import (
	"cmp"
	"slices"
)

// merge returns the union of intervals as disjoint intervals in order. It sorts
// and reuses its argument.
func merge(in []interval) []interval {
	if len(in) == 0 {
		return in
	}
	slices.SortFunc(in, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	out := in[:1]
	for _, iv := range in[1:] {
		if last := &out[len(out)-1]; iv.start <= last.end {
			last.end = max(last.end, iv.end)
		} else {
			out = append(out, iv)
		}
	}
	return out
}

// length is the sum of disjoint intervals.
func length(in []interval) int64 {
	var n int64
	for _, iv := range in {
		n += iv.end - iv.start
	}
	return n
}

// overlap is the time that two sets of disjoint, ordered intervals share.
func overlap(a, b []interval) int64 {
	var n int64
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if lo, hi := max(a[i].start, b[j].start), min(a[i].end, b[j].end); lo < hi {
			n += hi - lo
		}
		if a[i].end < b[j].end {
			i++
		} else {
			j++
		}
	}
	return n
}
