package rules

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"aicplan/sink/table"
)

// identity lists the columns of the key, with those that separate kinds of rows.
func (t *Table) identity() []string {
	out := slices.Clone(t.Key)
	for _, c := range []string{"op_name", "kernel_source"} {
		if !slices.Contains(out, c) && table.Has(t.Rec, c) {
			out = append(out, c)
		}
	}
	return out
}

// hashes returns a hash of each value of a column, and computes them once.
func (t *Table) hashes(name string) []uint64 {
	hashes, seen := t.columns[name]
	if seen {
		return hashes
	}

	ids, _ := table.Number(t.Rec, name)
	hashes = make([]uint64, len(ids))
	for row, id := range ids {
		hashes[row] = mix(uint64(len(t.columns))<<32 | uint64(id))
	}

	if t.columns == nil {
		t.columns = map[string][]uint64{}
	}
	t.columns[name] = hashes
	return hashes
}

// sum returns the sum of the hashes of every row's identity.
func (t *Table) sum() []uint64 {
	if t.sums == nil {
		t.sums = make([]uint64, len(t.Values))
		for _, name := range t.identity() {
			for row, h := range t.hashes(name) {
				t.sums[row] += h
			}
		}
	}
	return t.sums
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

// groups calls visit for each group of rows that agree but for some columns, sorted by at and row. Rows whose
// at is NaN are left out.
func (t *Table) groups(without []string, at func(row int) float64, visit func([]member)) {
	rows := make([]member, 0, len(t.Values))
	for i, sum := range t.sum() {
		if v := at(i); !math.IsNaN(v) {
			rows = append(rows, member{sum, v, i})
		}
	}

	for _, name := range without {
		hashes := t.hashes(name)
		for i := range rows {
			rows[i].group -= hashes[rows[i].row]
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

// series calls visit with the rows that differ along axis alone, or also in the columns beside it, in the order of
// the axis. Rows without a usable value are left out. If rows share a position, the first one counts. An axis of text
// has no order.
func (t *Table) series(axis string, visit func([]member), beside ...string) {
	pos, err := table.Float64s(t.Rec, axis)
	if err != nil {
		return
	}

	at := func(row int) float64 {
		if v := t.Values[row]; !(v > 0) || math.IsInf(v, 0) || pos.Null(row) {
			return math.NaN()
		}
		return pos.Values[row]
	}

	t.groups(append(beside, axis), at, func(rows []member) {
		if rows = slices.CompactFunc(rows, func(a, b member) bool { return a.at == b.at }); len(rows) > 1 {
			visit(rows)
		}
	})
}

// Axes are the columns along which work grows, in the order in which they are looked at.
var Axes = strings.Fields("batch_size isl m num_tokens num_token step seq_len message_size")
