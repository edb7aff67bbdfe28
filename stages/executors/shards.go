package executors

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Split divides n cases among at most the given number of shards. It returns the
// positions of the cases of each shard, ascending. The same input gives the same
// shards.
//
// groups has the group of each case, in the order in which they are to be
// measured. Cases of one group stay together, as long as the group is no larger
// than a fair share: what is loaded for one serves the others. If groups is nil,
// the cases are dealt out one by one, since large cases lie side by side in a
// grid. Every round uses another order of the shards. In a fixed order, an axis
// with as many values as there are shards would be split by its values, and a
// difference between nodes would look like one between cases.
func Split(n int, groups []int, shards int) [][]int {
	shards = max(1, min(n, shards))
	if n == 0 {
		return nil
	}
	out := make([][]int, shards)
	if groups == nil {
		for first := 0; first < n; first += shards {
			turns := rand.New(rand.NewPCG(uint64(first), uint64(shards))).Perm(shards)
			for i := first; i < min(n, first+shards); i++ {
				s := turns[i-first]
				out[s] = append(out[s], i)
			}
		}
		return out
	}

	// Pieces of groups, none larger than a fair share.
	share := (n + shards - 1) / shards
	var order []int
	members := map[int][]int{}
	for i, g := range groups {
		if members[g] == nil {
			order = append(order, g)
		}
		members[g] = append(members[g], i)
	}
	var pieces [][]int
	for _, g := range order {
		all := members[g]
		parts := (len(all) + share - 1) / share
		for p := range parts {
			pieces = append(pieces, all[p*len(all)/parts:(p+1)*len(all)/parts])
		}
	}

	// The largest piece first, each to the shard with the fewest cases.
	slices.SortStableFunc(pieces, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	for _, p := range pieces {
		least := 0
		for s := range out {
			if len(out[s]) < len(out[least]) {
				least = s
			}
		}
		out[least] = append(out[least], p...)
	}
	out = slices.DeleteFunc(out, func(s []int) bool { return len(s) == 0 })
	for _, s := range out {
		slices.Sort(s)
	}
	slices.SortFunc(out, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return out
}
