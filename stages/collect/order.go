package collect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
)

func notSelected(o stage.Options) string {
	if o.Smoke {
		return "--smoke collects a sample"
	}
	return fmt.Sprintf("--limit %d", o.Limit)
}

// columnsOf returns the indexes of grid columns. attr names the attribute in the error for an unknown
// column.
func columnsOf(cases *grid.Cases, names []string, attr string) ([]int, error) {
	var out []int
	for _, n := range names {
		at := slices.Index(cases.Columns(), n)
		if at < 0 {
			return nil, fmt.Errorf("%s names %q; the grid's columns are %s", attr, n, strings.Join(cases.Columns(), ", "))
		}
		out = append(out, at)
	}
	return out, nil
}

// groupName returns text such as "gemm_dtype=fp8 tp_size=8", or "" without columns.
func groupName(cases *grid.Cases, i int, names []string, cols []int) string {
	if len(cols) == 0 {
		return ""
	}

	var b strings.Builder
	for k, col := range cols {
		if k > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(names[k] + "=" + text(cases.Value(i, col)))
	}

	return b.String()
}

// selection returns the indexes of the cases that the options select, in grid order. It does not depend
// on what was measured already.
func selection(n int, o stage.Options) []int {
	want := n
	if o.Limit > 0 {
		want = min(want, o.Limit)
	}

	if o.Smoke {
		want = min(want, smokeCases)
	}

	if want == n || !o.Smoke {
		out := make([]int, want)
		for i := range out {
			out[i] = i
		}
		return out
	}

	out := rng(o.Seed, "selection").Perm(n)[:want]
	slices.Sort(out)
	return out
}

// truncated reports whether the options leave out cases of a grid with n cases.
func truncated(n int, o stage.Options) bool {
	return (o.Smoke && n > smokeCases) || (o.Limit > 0 && n > o.Limit)
}

// rng returns a random generator for one purpose, derived from the seed.
func rng(seed int64, purpose string) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, c := range []byte(purpose) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(uint64(seed), h))
}

// order groups tasks with equal values in the weights columns.
func (j *job) order(tasks []int, weights []string) ([]int, error) {
	if _, err := columnsOf(j.cases, weights, "weights"); err != nil {
		return nil, err
	}
	return j.together(slices.Clone(tasks), weights), nil
}

// together moves each task next to the first one with the same values in columns. Otherwise the order is
// unchanged.
func (j *job) together(order []int, columns []string) []int {
	if len(columns) == 0 {
		return order
	}

	cols, err := columnsOf(j.cases, columns, "the runtime")
	if err != nil {
		panic("collect: " + err.Error()) // the caller passes columns of the grid
	}

	rank, name := map[string]int{}, make(map[int]string, len(order))
	for _, t := range order {
		name[t] = groupName(j.cases, t, columns, cols)
		if _, ok := rank[name[t]]; !ok {
			rank[name[t]] = len(rank)
		}
	}

	out := slices.Clone(order)
	slices.SortStableFunc(out, func(a, b int) int { return rank[name[a]] - rank[name[b]] })
	return out
}

// rungs splits tasks into the samples of the ramp and the remaining tasks. The samples are random. The
// order within each part is unchanged.
func rungs(tasks []int, sizes []int, seed int64) [][]int {
	perm := rng(seed, "ramp").Perm(len(tasks))
	taken := make([]bool, len(tasks))
	var out [][]int
	done := 0
	for _, size := range sizes {
		if size >= len(tasks) {
			break
		}
		if size <= done {
			continue
		}

		sample := slices.Sorted(slices.Values(perm[done:size]))
		done = size
		var rung []int
		for _, at := range sample {
			taken[at] = true
			rung = append(rung, tasks[at])
		}

		out = append(out, rung)
	}

	var rest []int
	for at, t := range tasks {
		if !taken[at] {
			rest = append(rest, t)
		}
	}

	return append(out, rest)
}
