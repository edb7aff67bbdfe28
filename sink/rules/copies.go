package rules

import (
	"fmt"
	"math"
	"slices"

	"aicplan/sink/table"
)

// Two measurements agree to the last digit by chance only if few digits are given or times are short.
const (
	// exactSteps is how many steps of the resolution a value must have to be compared.
	exactSteps = 1000
	// copiedShare is from which share of equal rows on a value of a column counts as a copy of another.
	copiedShare = 0.8
	// copiedGroups is the same for columns of words and degrees of parallelism, over the whole table.
	copiedGroups = 0.1
	// fewestCopies is how many rows must agree.
	fewestCopies = 8
)

// Copies finds rows that agree to the last digit with a row that differs from them in one column of the
// key alone: measurements of one group that stand for another one.
func (t *Table) Copies() Result {
	var out Result
	step := t.quantum() * exactSteps
	marked := map[int]bool{}

	for _, name := range t.Key {
		c := t.copiesAlong(name, step)
		if c.problem == "" {
			continue
		}

		out.Problems = append(out.Problems, c.problem)
		for _, row := range c.rows {
			if !marked[row] {
				marked[row] = true
				out.bad(row, 1, "(equal but for "+name+")")
			}
		}
	}

	return out
}

type copies struct {
	problem string
	rows    []int
}

// copiesAlong compares rows that differ in one column.
func (t *Table) copiesAlong(name string, step float64) (out copies) {
	c, err := t.column(name)
	if err != nil || c.n < 2 {
		return out
	}
	values, n := c.ids, c.n

	at := func(row int) float64 {
		if v := t.Values[row]; v > max(step, 0) && !math.IsInf(v, 0) {
			return v
		}
		return math.NaN()
	}
	differ := func(rows []member) bool {
		return slices.ContainsFunc(rows, func(m member) bool { return values[m.row] != values[rows[0].row] })
	}

	// A row is comparable if a row with another value of the column exists beside it, and equal if one of
	// them has its time.
	comparable, equal, first := make([]int, n), make([][]int, n), make([]int, n)
	err = t.groups(name, at, func(group []member) {
		if !differ(group) {
			return
		}

		for _, m := range group {
			comparable[values[m.row]]++
			first[values[m.row]] = m.row
		}

		runs(group, func(a, b member) bool { return a.at == b.at }, func(same []member) {
			if !differ(same) {
				return
			}
			for _, m := range same {
				equal[values[m.row]] = append(equal[values[m.row]], m.row)
			}
		})
	})
	if err != nil {
		return out
	}

	total, agree, worst := 0, 0, -1
	for id := range comparable {
		total += comparable[id]
		agree += len(equal[id])

		if len(equal[id]) >= fewestCopies && float64(len(equal[id])) >= copiedShare*float64(comparable[id]) &&
			(worst < 0 || len(equal[id]) > len(equal[worst])) {
			worst = id
		}
	}

	many := t.apart(name) && agree >= enoughGroup && total >= 100 && float64(agree) > copiedGroups*float64(total)
	if worst < 0 && !many {
		return out
	}

	for id := range equal {
		out.rows = append(out.rows, equal[id]...)
	}
	slices.Sort(out.rows)

	out.problem = fmt.Sprintf("%d of %d rows have to the last digit the %s of a row with another %s", agree, total,
		t.Metric, name)
	if worst >= 0 {
		out.problem += fmt.Sprintf(", for example %d of %d rows with %s", len(equal[worst]), comparable[worst],
			table.Describe(t.Rec, first[worst], []string{name}))
	}

	return out
}

// parallel are the columns with degrees of parallelism.
var parallel = []string{"num_gpus", "tp_size", "moe_tp_size", "moe_ep_size", "ep_size", "node_num"}

// apart reports whether a column separates groups of rows and is no axis along which kernels may take
// the same time.
func (t *Table) apart(name string) bool {
	_, err := table.Strings(t.Rec, name)
	return err == nil || slices.Contains(parallel, name)
}
