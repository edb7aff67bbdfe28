package collect

import (
	"encoding/binary"
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

// grouping numbers the distinct values in some columns of a grid, in order of first appearance.
type grouping struct {
	cases   *grid.Cases
	columns []int
	numbers map[string]int32 // by the codes of the values
	names   []string         // such as "gemm_dtype=fp8 tp_size=8"; "" without columns
	key     []byte
}

// newGrouping returns a grouping by columns. attr names the attribute in the error for an unknown column.
func newGrouping(cases *grid.Cases, columns []string, attr string) (*grouping, error) {
	at, err := columnsOf(cases, columns, attr)
	return &grouping{cases: cases, columns: at, numbers: map[string]int32{}}, err
}

// of returns the number of the values of case i.
func (g *grouping) of(i int) int32 {
	g.key = g.key[:0]
	for _, col := range g.columns {
		g.key = binary.AppendUvarint(g.key, uint64(g.cases.Code(i, col)))
	}
	n, known := g.numbers[string(g.key)]
	if known {
		return n
	}

	var values []string
	for _, col := range g.columns {
		values = append(values, g.cases.Columns()[col]+"="+text(g.cases.Value(i, col)))
	}
	n = int32(len(g.names))
	g.numbers[string(g.key)] = n
	g.names = append(g.names, strings.Join(values, " "))
	return n
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

// together moves each task next to the first one with the same values in columns. Otherwise the order is
// unchanged. attr names the attribute in the error for an unknown column.
func (j *job) together(tasks []int, columns []string, attr string) ([]int, error) {
	g, err := newGrouping(j.cases, columns, attr)
	if err != nil || len(columns) == 0 {
		return tasks, err
	}
	for _, t := range tasks {
		g.of(t) // numbers follow the order of the tasks
	}

	out := slices.Clone(tasks)
	slices.SortStableFunc(out, func(a, b int) int { return int(g.of(a) - g.of(b)) })
	return out, nil
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
