package rules

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

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
	// scaledShare is from which share of rows on one ratio to the rows of another group counts as computed
	// from it.
	scaledShare = 0.5
)

// Exact returns the value above which two measurements do not agree to the last digit by chance.
func (t *Table) Exact() float64 { return t.quantum() * exactSteps }

// Copies finds rows that agree to the last digit with a row that differs from them in one column of the
// key alone, or in formats, whatever their kernels are called: measurements of one group that stand for another
// one. It also finds groups that are a multiple of another one.
func (t *Table) Copies() Result {
	var out Result
	step := t.Exact()
	marked := map[int]bool{}

	for row := range t.Values {
		if why := t.unusable(row); why != "" {
			out.skip(row, why)
		}
	}

	var formats []string
	along := func(names ...string) {
		problem, rows := t.copiesAlong(step, names)
		if problem == "" {
			return
		}

		out.Problems = append(out.Problems, problem)
		for _, row := range rows {
			if !marked[row] {
				marked[row] = true
				out.bad(row, 1, "(equal but for "+strings.Join(names, ", ")+")")
			}
		}
	}
	for _, name := range t.Key {
		along(name)
		if strings.HasSuffix(name, "_dtype") || name == "gemm_type" {
			formats = append(formats, name)
		}
	}
	if len(formats) > 1 && len(out.Problems) == 0 {
		along(formats...)
	}

	return out
}

// copiesAlong compares rows that differ in some columns only, and returns a problem with its rows.
func (t *Table) copiesAlong(step float64, names []string) (problem string, rows []int) {
	values, n := table.Number(t.Rec, names...)
	name := strings.Join(names, ", ")
	if n < 2 {
		return problem, rows
	}

	at := func(row int) float64 {
		if v := t.Values[row]; v > max(step, 0) && !math.IsInf(v, 0) {
			return v
		}
		return math.NaN()
	}
	differ := func(rows []member) bool {
		return slices.ContainsFunc(rows, func(m member) bool { return values[m.row] != values[rows[0].row] })
	}

	without := slices.Clone(names)
	if kernel := "kernel_source"; name != kernel && slices.Contains(t.identity(), kernel) {
		without = append(without, kernel) // groups of other dtypes or frameworks have other kernels
	}

	scaled := map[[2]uint32]*vote{}
	apart := t.apart(names[0])

	// A row is comparable if a row with another value of the column exists beside it, and equal if one of
	// them has its time.
	comparable, equal, first := make([]int, n), make([][]int, n), make([]int, n)
	t.groups(without, at, func(group []member) {
		if !differ(group) {
			return
		}

		if apart && len(group) <= mostCompared {
			compare(group, values, scaled)
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

	total, agree, worst := 0, 0, -1
	for id := range comparable {
		total += comparable[id]
		agree += len(equal[id])

		if len(equal[id]) >= fewestCopies && float64(len(equal[id])) >= copiedShare*float64(comparable[id]) &&
			(worst < 0 || len(equal[id]) > len(equal[worst])) {
			worst = id
		}
	}

	many := apart && agree >= enoughGroup && total >= 100 && float64(agree) > copiedGroups*float64(total)
	if worst < 0 && !many {
		if of := multiple(scaled); of != nil {
			problem = fmt.Sprintf("the %s of most of %d rows with %s is to the last digit %.6g times that with %s", t.Metric,
				of.n, table.Describe(t.Rec, of.rows[1], names), of.ratio,
				table.Describe(t.Rec, of.rows[0], names))
		}
		return problem, rows
	}

	for id := range equal {
		rows = append(rows, equal[id]...)
	}
	slices.Sort(rows)

	problem = fmt.Sprintf("%d of %d rows have to the last digit the %s of a row with another %s", agree, total,
		t.Metric, name)
	if worst >= 0 {
		problem += fmt.Sprintf(", for example %d of %d rows with %s", len(equal[worst]), comparable[worst],
			table.Describe(t.Rec, first[worst], names))
	}

	return problem, rows
}

// parallel are the columns with degrees of parallelism.
var parallel = []string{"num_gpus", "tp_size", "moe_tp_size", "moe_ep_size", "ep_size", "node_num"}

// apart reports whether a column separates groups of rows and is no axis along which kernels may take
// the same time.
func (t *Table) apart(name string) bool {
	_, err := table.Strings(t.Rec, name)
	return err == nil || slices.Contains(parallel, name)
}

// mostCompared is how many rows of a group are compared with each other.
const mostCompared = 64

// vote counts the most frequent ratio of the rows of one group to those of another.
type vote struct {
	ratio    float64
	count, n int // of the ratio less those of others, and of all ratios
	rows     [2]int
}

// sameRatio is how far two ratios of equal value differ because of rounding.
const sameRatio = 1e-9

// compare adds the ratios of the rows of a group to the votes for the pairs of their values.
func compare(group []member, values []uint32, votes map[[2]uint32]*vote) {
	for i, a := range group {
		for _, b := range group[i+1:] {
			from, to := a, b
			if values[from.row] > values[to.row] {
				from, to = b, a
			}

			pair := [2]uint32{values[from.row], values[to.row]}
			if pair[0] == pair[1] {
				continue
			}

			v, ratio := votes[pair], to.at/from.at
			if v == nil {
				v = &vote{rows: [2]int{from.row, to.row}}
				votes[pair] = v
			}

			v.n++
			switch {
			case v.count == 0:
				v.ratio, v.count = ratio, 1
			case math.Abs(ratio/v.ratio-1) < sameRatio:
				v.count++
			default:
				v.count--
			}
		}
	}
}

// multiple returns the vote with the most rows for a ratio, the first of them in the table, or nil if every pair of
// groups has many ratios.
func multiple(votes map[[2]uint32]*vote) (most *vote) {
	for _, v := range votes {
		if v.count < enoughGroup || float64(v.count) <= scaledShare*float64(v.n) {
			continue
		}
		if most == nil || cmp.Or(cmp.Compare(most.count, v.count), slices.Compare(v.rows[:], most.rows[:])) < 0 {
			most = v
		}
	}
	return most
}
