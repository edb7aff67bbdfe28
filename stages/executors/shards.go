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
// is no larger than a fair share, because they share what is loaded for them. If groups is nil, each case is a group of
// its own.
func Split(n int, groups []int, shards int) [][]int {
	shards = max(1, min(n, shards))
	if n == 0 {
		return nil
	}

	if groups == nil {
		groups = make([]int, n)
		for i := range groups {
			groups[i] = i
		}
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

	// Assign the pieces, largest first, to a shard with the fewest cases, drawn at random. In a fixed order, an axis with
	// as many values as there are shards would be split by its values, and a difference between nodes would look like
	// one between cases.
	slices.SortStableFunc(pieces, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	random, out := rand.New(rand.NewPCG(uint64(n), uint64(shards))), make([][]int, shards)
	for _, p := range pieces {
		first := random.IntN(shards)
		least := first
		for i := range shards {
			if s := (first + i) % shards; len(out[s]) < len(out[least]) {
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
