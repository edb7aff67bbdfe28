package executors

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Split divides n cases among at most shards shards. It returns the ascending positions of the cases of
// each shard. The result is deterministic.
//
// groups has the group of each case, in measuring order. Cases of one group stay together if the group
// is no larger than a fair share, because they share what is loaded for them. If groups is nil, the
// cases are dealt out one by one, because neighbouring cases of a grid have similar sizes. Every round
// uses another order of the shards. In a fixed order, an axis with as many values as there are shards
// would be split by its values, and a difference between nodes would look like one between cases.
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

	// Divide the groups into pieces, none larger than a fair share.
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

	// Assign the pieces, largest first, to the shard with the fewest cases.
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
