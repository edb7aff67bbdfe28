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
	members := map[string][]float64{}
	for i, p := range r.pairs {
		value := table.Text(a, p.A)
		if b != nil {
			if other := table.Text(b, p.B); other != value {
				value += " -> " + other
			}
		}
		if members[value] = append(members[value], r.ratios[i]); len(members) > maxValues && !asked {
			return nil
		}
	}

	out := make([]Group, 0, len(members))
	for value, m := range members {
		out = append(out, Group{Column: name, Value: value, Rows: len(m), Ratio: quantiles(m)})
	}

	if len(out) == 1 && !asked && !strings.Contains(out[0].Value, " -> ") {
		return nil // all rows are in the group: its line would repeat the total
	}
	slices.SortFunc(out, func(x, y Group) int {
		return cmp.Or(compareValues(x.Value, y.Value), cmp.Compare(x.Value, y.Value))
	})
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
