package diff

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"gonum.org/v1/gonum/stat"

	"aicplan/sink/base/stats"
	"aicplan/sink/table"
)

// quantiles by nearest rank; ratios must not be empty.
func quantiles(ratios []float64) Quantiles {
	s := slices.Clone(ratios)
	slices.Sort(s)
	at := func(p float64) float64 { return stats.Rank(s, p) }
	return Quantiles{
		Min: s[0], P5: at(0.05), P25: at(0.25), P50: at(0.5), P75: at(0.75), P95: at(0.95), Max: s[len(s)-1],
		Geomean: stat.GeometricMean(s, nil),
	}
}

// maxValues is how many values a column of the breakdown may have.
const maxValues = 32

// breakdown groups the common rows along each column.
func (r *Comparison) breakdown(a, b arrow.Record, o Options) {
	columns := o.By
	if columns == nil {
		columns = r.Key
		if !slices.Contains(columns, "kernel_source") {
			columns = append([]string{"kernel_source"}, columns...)
		}
	}

	for _, name := range columns {
		arr, err := table.Array(a, name)
		if err != nil {
			continue
		}

		var other arrow.Array
		if name == "kernel_source" && !slices.Contains(r.Key, name) {
			// Who ran it may differ between the sides: that is worth a group.
			if other, err = table.Array(b, name); err != nil {
				continue
			}
		}

		r.Groups = append(r.Groups, r.groupsOf(name, arr, other, o.By != nil)...)
	}
}

func (r *Comparison) groupsOf(name string, a, b arrow.Array, asked bool) []Group {
	ix := table.NewKeyIndex([]string{"a", "b"}, table.KeyOptions{})
	cols := []arrow.Array{a, a}
	if b != nil {
		cols[1] = b
	}
	rowsA, rowsB := make([]int, len(r.pairs)), make([]int, len(r.pairs))
	for i, p := range r.pairs {
		rowsA[i], rowsB[i] = p.A, p.B
		if b == nil {
			rowsB[i] = p.A
		}
	}

	left := table.Take(table.NewRecord([]string{"a"}, cols[:1]), rowsA)
	right := table.Take(table.NewRecord([]string{"b"}, cols[1:]), rowsB)
	ids, err := ix.Number(table.WithColumn(left, "b", right.Column(0)))
	if err != nil || (ix.Len() > maxValues && !asked) {
		return nil
	}
	members := make([][]float64, ix.Len())
	sample := make([]int, ix.Len())
	for i, id := range ids {
		if members[id] == nil {
			sample[id] = i
		}
		members[id] = append(members[id], r.ratios[i])
	}

	out := make([]Group, 0, len(members))
	for id, m := range members {
		value := table.Text(left.Column(0), sample[id])
		if other := table.Text(right.Column(0), sample[id]); other != value {
			value += " -> " + other
		}
		out = append(out, Group{Column: name, Value: value, Rows: len(m), Ratio: quantiles(m)})
	}

	if len(out) == 1 && !asked && !strings.Contains(out[0].Value, " -> ") {
		return nil // all rows are in the group: its line would repeat the total
	}
	slices.SortFunc(out, func(x, y Group) int { return compareValues(x.Value, y.Value) })
	return out
}

// compareValues sorts numbers by size and words by bytes.
func compareValues(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX == nil && errY == nil {
		return cmp.Compare(x, y)
	}

	return cmp.Compare(a, b)
}
