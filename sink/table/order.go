package table

import (
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// SortKey is one column to sort by.
type SortKey struct {
	Name string
	Desc bool
}

// Asc lists columns to sort by, all ascending.
func Asc(names ...string) []SortKey {
	keys := make([]SortKey, len(names))
	for i, n := range names {
		keys[i].Name = n
	}
	return keys
}

// SortIndices returns the row order that sorts rec by the keys, the first
// being the most significant; equal rows keep their order. Strings compare by
// bytes, false is before true, -0 equals 0, NaN is behind all numbers, and
// null is last, ascending or not.
func SortIndices(rec arrow.Record, keys ...SortKey) ([]int, error) {
	order := make([]int, rec.NumRows())
	for i := range order {
		order[i] = i
	}
	ranks := make([]*ranking, len(keys))
	for i, k := range keys {
		r, err := rank(rec, k.Name)
		if err != nil {
			return nil, err
		}
		if k.Desc {
			for row := range r.codes {
				r.codes[row] = r.max - r.codes[row]
			}
		}
		ranks[i] = r
	}
	// Least significant key first: every pass is stable, so the last one
	// decides and the earlier ones break its ties.
	scratch := make([]int, len(order))
	for _, r := range slices.Backward(ranks) {
		order, scratch = r.sort(order, scratch)
	}
	return order, nil
}

// Sort returns rec sorted as SortIndices says.
func Sort(rec arrow.Record, keys ...SortKey) (arrow.Record, error) {
	rows, err := SortIndices(rec, keys...)
	if err != nil {
		return nil, err
	}
	if slices.IsSorted(rows) {
		return rec, nil
	}
	return Take(rec, rows), nil
}

// ranking is a column as codes that order like its values.
type ranking struct {
	codes []uint64
	max   uint64
	valid []bool // nil when no row is null
}

// sort reorders the rows of order by their codes, nulls last, and returns the
// result and the slice it no longer needs. It is a radix sort: the passes are
// few, since codes start at 0 and go no further than the column's spread.
func (r *ranking) sort(order, scratch []int) (sorted, spare []int) {
	const digit = 11
	for shift := 0; shift < bits.Len64(r.max); shift += digit {
		var count [1 << digit]int
		for _, row := range order {
			count[r.codes[row]>>shift&(1<<digit-1)]++
		}
		at := 0
		for d, n := range count {
			count[d] = at
			at += n
		}
		for _, row := range order {
			d := r.codes[row] >> shift & (1<<digit - 1)
			scratch[count[d]] = row
			count[d]++
		}
		order, scratch = scratch, order
	}
	if r.valid == nil {
		return order, scratch
	}
	n := 0
	for _, keep := range []bool{true, false} {
		for _, row := range order {
			if r.valid[row] == keep {
				scratch[n] = row
				n++
			}
		}
	}
	return scratch, order
}

func rank(rec arrow.Record, name string) (*ranking, error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}
	t, _ := normalType(arr.DataType())
	switch {
	case t == nil:
		return nil, &TypeError{Name: name, Have: arr.DataType(), Want: String}
	case t.ID() == arrow.INT64:
		c, err := int64Col(name, arr)
		if err != nil {
			return nil, err
		}
		return rankCol(c, func(v int64) uint64 { return uint64(v) ^ 1<<63 }), nil
	case t.ID() == arrow.FLOAT64:
		c, err := float64Col(name, arr)
		if err != nil {
			return nil, err
		}
		return rankCol(c, floatCode), nil
	case t.ID() == arrow.BOOL:
		c, err := boolCol(name, arr)
		if err != nil {
			return nil, err
		}
		return rankCol(c, func(v bool) uint64 { return uint64(flag(v)) }), nil
	}
	c, err := stringCol(name, arr)
	if err != nil {
		return nil, err
	}
	codes := map[string]uint64{}
	for _, v := range c.Values {
		codes[v] = 0
	}
	for i, v := range slices.Sorted(maps.Keys(codes)) {
		codes[v] = uint64(i)
	}
	return rankCol(c, func(v string) uint64 { return codes[v] }), nil
}

// floatCode orders like the float: by sign, then by magnitude.
func floatCode(v float64) uint64 {
	switch {
	case v == 0:
		v = 0 // not -0
	case math.IsNaN(v):
		v = math.NaN() // positive, behind +Inf
	}
	b := math.Float64bits(v)
	if b>>63 == 1 {
		return ^b
	}
	return b | 1<<63
}

// rankCol makes codes that begin at 0; null rows have the code 0.
func rankCol[T any](c *Col[T], code func(T) uint64) *ranking {
	r := &ranking{codes: make([]uint64, len(c.Values)), valid: c.valid}
	lowest, highest := uint64(math.MaxUint64), uint64(0)
	for i, v := range c.Values {
		if c.Null(i) {
			continue
		}
		x := code(v)
		r.codes[i] = x
		lowest, highest = min(lowest, x), max(highest, x)
	}
	if lowest > highest { // no values
		return r
	}
	for i := range r.codes {
		if !c.Null(i) {
			r.codes[i] -= lowest
		}
	}
	r.max = highest - lowest
	return r
}
