package rules

import (
	"cmp"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// axes lists the integer columns of the key, along which rows have neighbours.
func (t *Table) axes() []string {
	return slices.DeleteFunc(slices.Clone(t.Key), func(name string) bool {
		return t.Rec.Column(table.Index(t.Rec, name)).DataType().ID() != arrow.INT64
	})
}

// identity lists the columns of the key, with those that tell kinds of rows apart.
func (t *Table) identity() []string {
	out := slices.Clone(t.Key)
	for _, c := range []string{"op_name", "kernel_source"} {
		if !slices.Contains(out, c) && table.Has(t.Rec, c) {
			out = append(out, c)
		}
	}
	return out
}

// hashes has a hash of every row's value by column of identity, and the sum of a row's hashes.
type hashes struct {
	columns map[string][]uint64
	sum     []uint64
}

// hash returns the hashes of the rows. An error means that a column cannot be read.
func (t *Table) hash() (*hashes, error) {
	if t.hashed != nil {
		return t.hashed, nil
	}

	out := &hashes{columns: map[string][]uint64{}, sum: make([]uint64, len(t.Values))}
	for i, name := range t.identity() {
		ids, _, err := t.numbered(name)
		if err != nil {
			return nil, err
		}

		column := make([]uint64, len(ids))
		for row, id := range ids {
			column[row] = mix(uint64(i)<<32 | uint64(id))
			out.sum[row] += column[row]
		}
		out.columns[name] = column
	}

	t.hashed = out
	return out, nil
}

// mix is the finalizer of SplitMix64: sums of its results for different values are different.
func mix(v uint64) uint64 {
	v += 0x9e3779b97f4a7c15
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// member is a row of a group, with the value by which its group is sorted.
type member struct {
	group uint64
	at    float64
	row   int
}

// groups calls visit for each group of rows that agree but for one column, sorted by at and row. Rows whose
// at is NaN are left out.
func (t *Table) groups(without string, at func(row int) float64, visit func([]member)) error {
	h, err := t.hash()
	if err != nil {
		return err
	}

	column := h.columns[without]
	rows := make([]member, 0, len(h.sum))
	for i, sum := range h.sum {
		if v := at(i); !math.IsNaN(v) {
			rows = append(rows, member{sum - column[i], v, i})
		}
	}

	slices.SortFunc(rows, func(a, b member) int {
		switch {
		case a.group != b.group:
			return cmp.Compare(a.group, b.group)
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return a.row - b.row
	})
	runs(rows, func(a, b member) bool { return a.group == b.group }, visit)
	return nil
}

// runs calls visit for each maximal run of elements that are the same as their predecessor.
func runs[T any](list []T, same func(a, b T) bool, visit func([]T)) {
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && same(list[to-1], list[to]) {
			to++
		}
		visit(list[from:to])
		from = to
	}
}

// series calls visit with the rows that differ along axis alone, in the order of the axis. Rows without a
// usable value are left out. If rows share a position, the first one counts.
func (t *Table) series(axis string, visit func([]member)) error {
	pos, err := table.Float64s(t.Rec, axis)
	if err != nil {
		return err
	}

	at := func(row int) float64 {
		if v := t.Values[row]; !(v > 0) || math.IsInf(v, 0) || pos.Null(row) {
			return math.NaN()
		}
		return pos.Values[row]
	}

	return t.groups(axis, at, func(rows []member) {
		if rows = slices.CompactFunc(rows, func(a, b member) bool { return a.at == b.at }); len(rows) > 1 {
			visit(rows)
		}
	})
}
