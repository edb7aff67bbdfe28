package executors

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
)

// Split deals n cases, given by their groups in the order in which they are to
// be measured, into at most so many shards; it returns the positions of the
// cases of each shard, ascending. The same cases give the same shards.
//
// Cases of one group stay together, as long as a group is no larger than its
// share: what is loaded for one serves the others. Where all are in groups of
// their own (nil), they are dealt out one by one, since large cases lie side by
// side in a grid. Every round deals to the shards in another order: in a fixed one
// an axis with as many values as there are shards would be split by its values,
// and what differs between nodes would look like what differs between cases.
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
	for i := range n {
		if members[groups[i]] == nil {
			order = append(order, groups[i])
		}
		members[groups[i]] = append(members[groups[i]], i)
	}
	var pieces [][]int
	for _, g := range order {
		all := members[g]
		parts := (len(all) + share - 1) / share
		for p := range parts {
			pieces = append(pieces, all[p*len(all)/parts:(p+1)*len(all)/parts])
		}
	}
	// The largest first, each to the shard with the least: stable, so that it
	// depends on nothing but the cases.
	slices.SortStableFunc(pieces, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	load := make(bins, shards)
	for i := range load {
		load[i].shard = i
	}
	for _, p := range pieces {
		b := &load[0]
		out[b.shard] = append(out[b.shard], p...)
		b.cases += len(p)
		heap.Fix(&load, 0)
	}
	out = slices.DeleteFunc(out, func(s []int) bool { return len(s) == 0 })
	for _, s := range out {
		slices.Sort(s)
	}
	slices.SortFunc(out, func(a, b []int) int { return cmp.Compare(a[0], b[0]) })
	return out
}

// bin is a shard with the number of its cases.
type bin struct{ cases, shard int }

// bins is a heap with the emptiest shard on top.
type bins []bin

func (b bins) Len() int { return len(b) }
func (b bins) Less(i, j int) bool {
	return b[i].cases < b[j].cases || b[i].cases == b[j].cases && b[i].shard < b[j].shard
}
func (b bins) Swap(i, j int) { b[i], b[j] = b[j], b[i] }
func (b *bins) Push(x any)   { *b = append(*b, x.(bin)) }
func (b *bins) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
