package collect

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/collect/policy"
)

// smokeCases is the number of cases that --smoke collects.
const smokeCases = 4

// selection reports for each of n cases whether the options select it. It does not depend on what was measured already.
func selection(n int, o stage.Options) []bool {
	most, out := n, make([]bool, n)
	if o.Limit > 0 {
		most = min(n, o.Limit)
	}

	if o.Smoke {
		for _, i := range policy.Random(o.Seed, "selection").Perm(n)[:min(most, smokeCases)] {
			out[i] = true
		}
		return out
	}
	for i := range most {
		out[i] = true
	}
	return out
}

// truncated reports whether the options leave out cases of a grid with n cases.
func truncated(n int, o stage.Options) bool {
	return (o.Smoke && n > smokeCases) || (o.Limit > 0 && n > o.Limit)
}

// columnsOf returns the indexes of grid columns. attr names the attribute in the error for an unknown column.
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
		values = append(values, g.cases.Columns()[col]+"="+grid.Text(g.cases.Value(i, col)))
	}
	n = int32(len(g.names))
	g.numbers[string(g.key)] = n
	g.names = append(g.names, strings.Join(values, " "))
	return n
}

// together moves each task next to the first one with the same values in columns. Otherwise the order is unchanged.
// attr names the attribute in the error for an unknown column.
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
