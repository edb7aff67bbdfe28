package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Align compares the ranks of one run: the i-th collective of a kind and group
// on one rank is the same call as the i-th on the others. A kernel waits inside
// its own time for the rank that comes last, so what a call takes beyond its
// quickest rank is waiting. Clocks of different hosts are not compared. It sets
// WaitNs of each result, or says why the ranks cannot be compared.
func Align(results []*Analysis) (note string) {
	var with []*Analysis
	for _, r := range results {
		if r.Kernels > 0 {
			with = append(with, r)
		}
	}
	if len(with) < 2 {
		return ""
	}
	parts := make([]map[callKey][]int64, len(with))
	for i, r := range with {
		parts[i] = r.calls
	}
	calls := 0
	waits := make([]int64, len(with))
	keys := slices.SortedFunc(maps.Keys(parts[0]), func(a, b callKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.group, b.group))
	})
	for _, k := range keys {
		first := parts[0][k]
		n := len(first)
		for i := range parts {
			if len(parts[i][k]) != n {
				return fmt.Sprintf("ranks were not compared: %s has %d %s, %s has %d; are these files of one run?",
					with[0].File, n, k.kind, with[i].File, len(parts[i][k]))
			}
		}
		for c := range n {
			quickest := first[c]
			for i := range parts {
				quickest = min(quickest, parts[i][k][c])
			}
			for i := range parts {
				waits[i] += parts[i][k][c] - quickest
			}
		}
		calls += n
	}
	for i := range parts {
		if len(parts[i]) != len(parts[0]) {
			return fmt.Sprintf("ranks were not compared: %s and %s have different kinds of collectives; are these files of one run?", with[0].File, with[i].File)
		}
	}
	if calls == 0 {
		return ""
	}
	for i, r := range with {
		w := waits[i]
		r.WaitNs = &w
	}
	return ""
}
