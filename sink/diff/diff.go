// Package diff compares perf tables: which rows came, went and changed, and by
// how much, overall and along each axis.
package diff

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/catalog"
	"aicplan/sink/rules"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// Options of a comparison.
type Options struct {
	// Table names the perf table, which determines key and metric; or is "".
	Table string
	// Schema is the perf table. Nil means the built-in one of that name.
	Schema *catalog.Table
	// Key replaces the key of the table. Without either, the key is every column that both sides have and
	// that describes what was measured.
	Key []string
	// Metric is the compared column; empty means the table's first metric.
	Metric string
	// Tolerance is how far a ratio may be from 1 before the row counts as
	// changed.
	Tolerance float64
	// Worst is how many rows are listed of each kind; 0 means 20.
	Worst int
	// By lists the columns of the breakdown; nil means kernel_source and every
	// key column with at most 32 values.
	By []string
}

// Quantiles of B / A over the common rows.
type Quantiles struct {
	Min     float64 `json:"min"`
	P5      float64 `json:"p5"`
	P25     float64 `json:"p25"`
	P50     float64 `json:"p50"`
	P75     float64 `json:"p75"`
	P95     float64 `json:"p95"`
	Max     float64 `json:"max"`
	Geomean float64 `json:"geomean"`
}

// Row is one compared row.
type Row struct {
	Key     string  `json:"key"`
	A       float64 `json:"a"`
	B       float64 `json:"b"`
	Ratio   float64 `json:"ratio"`
	KernelA string  `json:"kernel_a,omitempty"`
	KernelB string  `json:"kernel_b,omitempty"`
}

// Group is the common rows that share one value of a column.
type Group struct {
	Column string    `json:"column"`
	Value  string    `json:"value"`
	Rows   int       `json:"rows"`
	Ratio  Quantiles `json:"ratio"`
}

// Comparison is the outcome of comparing two tables.
type Comparison struct {
	A      Side     `json:"a"`
	B      Side     `json:"b"`
	Table  string   `json:"table,omitempty"`
	Key    []string `json:"key"`
	Metric string   `json:"metric"`

	Common  int `json:"common"`
	Added   int `json:"added"`   // in B alone
	Removed int `json:"removed"` // in A alone
	Changed int `json:"changed"` // common, and outside the tolerance
	// Unusable are common rows without a ratio, counted among the changed, by
	// reason in UnusableWhy.
	Unusable    int            `json:"unusable,omitempty"`
	UnusableWhy map[string]int `json:"unusable_why,omitempty"`

	// Uncompared counts rows that repeat a key if the two sides do not have the same number of them.
	Uncompared int `json:"uncompared,omitempty"`

	Tolerance float64    `json:"tolerance"`
	Ratio     *Quantiles `json:"ratio,omitempty"` // nil without usable common rows
	Worst     []Row      `json:"worst,omitempty"`
	AddedRows []string   `json:"added_rows,omitempty"`
	LostRows  []string   `json:"removed_rows,omitempty"`
	Groups    []Group    `json:"groups,omitempty"`
	// Drift lists how the columns differ.
	Drift []string `json:"drift,omitempty"`

	ratios []float64 // of Pairs
	pairs  []Pair
}

// Pair is a common row by its positions in the tables as they were given.
type Pair struct{ A, B int }

// Pairs returns the common rows whose ratio is usable, with the ratio.
func (r *Comparison) Pairs() ([]Pair, []float64) { return r.pairs, r.ratios }

// ErrNoKey means that the tables have no column in common by which rows can be compared.
var ErrNoKey = errors.New("the tables have no columns in common that name a row")

// Tables compares a with b. Of rows that repeat a key the one counts that readers
// of the table take: the first, of some tables the last. Older words are compared as what they are called now.
func Tables(a, b arrow.Record, nameA, nameB string, o Options) (*Comparison, error) {
	if o.Schema == nil {
		o.Schema, _ = catalog.Lookup(o.Table)
	}
	r := &Comparison{A: side(a, nameA), B: side(b, nameB), Table: o.Table, Tolerance: o.Tolerance}
	if o.Worst == 0 {
		o.Worst = 20
	}
	if err := r.choose(a, b, o); err != nil {
		return nil, err
	}

	for _, name := range o.By {
		if _, err := table.Array(a, name); err != nil {
			return nil, fmt.Errorf("the breakdown of %s: %w", nameA, err)
		}
	}

	ix := table.NewKeyIndex(r.Key, table.KeyOptions{Canon: canon, Missing: tree.Defaults})
	idA := ix.Number(a)
	nA := ix.Len()
	idB := ix.Number(b)
	last := o.Schema != nil && o.Schema.Repeats == catalog.TakeLast
	firstA, dupA := one(idA, ix.Len(), last)
	firstB, dupB := one(idB, ix.Len(), last)
	r.A.Duplicates, r.B.Duplicates = dupA, dupB
	metricA, err := table.Float64s(a, r.Metric)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameA, err)
	}
	metricB, err := table.Float64s(b, r.Metric)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameB, err)
	}
	if dupA+dupB > 0 {
		r.Uncompared = uncompared(idA, idB, ix.Len(), nA, metricA, metricB)
	}

	for id, rowA := range firstA[:nA] {
		rowB := firstB[id]
		if rowB < 0 {
			r.Removed++
			if len(r.LostRows) < o.Worst {
				r.LostRows = append(r.LostRows, table.Describe(a, rowA, r.Key))
			}
			continue
		}

		r.Common++
		va, okA := metricA.At(rowA)
		vb, okB := metricB.At(rowB)
		ratio := vb / va
		if !okA || !okB || !(va > 0 && ratio > 0) || math.IsInf(ratio, 1) {
			if okA && okB && va == vb {
				continue // zero in both: equal, but without a ratio
			}
			r.Unusable++
			r.Changed++
			r.unusable(nameA, va, okA, nameB, vb, okB)
			continue
		}

		if math.Abs(ratio-1) > o.Tolerance {
			r.Changed++
		}
		r.pairs = append(r.pairs, Pair{rowA, rowB})
		r.ratios = append(r.ratios, ratio)
	}

	for id := nA; id < ix.Len(); id++ {
		r.Added++
		if len(r.AddedRows) < o.Worst {
			r.AddedRows = append(r.AddedRows, table.Describe(b, firstB[id], r.Key))
		}
	}

	r.summarise(a, b, metricA, metricB, o)
	return r, nil
}

// unusable counts why a common row has no ratio, first by what B lacks.
func (r *Comparison) unusable(nameA string, va float64, okA bool, nameB string, vb float64, okB bool) {
	why := unfit(vb, okB)
	whose := nameB
	if why == "" {
		why, whose = unfit(va, okA), nameA
	}
	if why == "" {
		why, whose = "too far from the other side for a ratio", nameB
	}
	if r.UnusableWhy == nil {
		r.UnusableWhy = map[string]int{}
	}
	r.UnusableWhy[fmt.Sprintf("%s of %s is %s", r.Metric, whose, why)]++
}

func unfit(v float64, ok bool) string {
	if !ok {
		return "null"
	}
	return strings.TrimPrefix(rules.Unusable("", v, false), " is ")
}

// one returns the first row of every key, or the last, and -1 if a side lacks it.
func one(ids []uint32, n int, last bool) (rows []int, duplicates int) {
	rows = make([]int, n)
	for i := range rows {
		rows[i] = -1
	}

	for i, id := range ids {
		if rows[id] >= 0 {
			if duplicates++; !last {
				continue
			}
		}

		rows[id] = i
	}

	return rows, duplicates
}

// uncompared counts the rows that repeat a key of both sides, unless both have the
// same values for it, in any order.
func uncompared(idA, idB []uint32, n, nA int, a, b *table.Col[float64]) int {
	type cell struct {
		bits uint64
		null bool
	}
	groups := func(ids []uint32, col *table.Col[float64]) [][]cell {
		out := make([][]cell, n)
		for i, id := range ids {
			out[id] = append(out[id], cell{math.Float64bits(col.Values[i]), col.Null(i)})
		}

		return out
	}

	order := func(x, y cell) int { return cmp.Compare(x.bits, y.bits) }
	of, to := groups(idA, a), groups(idB, b)
	count := 0
	for id := range nA {
		x, y := of[id], to[id]
		if len(y) == 0 || len(x) == 1 && len(y) == 1 {
			continue
		}
		slices.SortFunc(x, order)
		slices.SortFunc(y, order)
		if !slices.Equal(x, y) {
			count += len(x) + len(y) - 2
		}
	}

	return count
}

// summarise fills the ratio, the worst rows and the breakdown.
func (r *Comparison) summarise(a, b arrow.Record, metricA, metricB *table.Col[float64], o Options) {
	if len(r.ratios) == 0 {
		return
	}
	q := quantiles(r.ratios)
	r.Ratio = &q
	r.breakdown(a, b, o)
	order := make([]int, len(r.pairs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(math.Abs(math.Log(r.ratios[y])), math.Abs(math.Log(r.ratios[x])))
	})

	kernelA, _ := table.Array(a, "kernel_source")
	kernelB, _ := table.Array(b, "kernel_source")
	for _, i := range order[:min(len(order), o.Worst)] {
		p := r.pairs[i]
		if r.ratios[i] == 1 {
			break
		}

		row := Row{Key: table.Describe(a, p.A, r.Key), A: metricA.Values[p.A], B: metricB.Values[p.B], Ratio: r.ratios[i]}
		if kernelA != nil && kernelB != nil {
			row.KernelA, row.KernelB = table.Text(kernelA, p.A), table.Text(kernelB, p.B)
		}
		r.Worst = append(r.Worst, row)
	}
}
