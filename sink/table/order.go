package table

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

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
	var w words
	for _, k := range keys {
		r, err := rank(rec, k.Name)
		if err != nil {
			return nil, err
		}
		if k.Desc {
			for row := range r.codes {
				r.codes[row] = r.max - r.codes[row]
			}
		}
		w.add(r)
	}

	order := make([]int, rec.NumRows())
	for i := range order {
		order[i] = i
	}
	if !slices.IsSortedFunc(order, w.compare) {
		// The position decides between equal rows, which is faster than a stable sort.
		slices.SortFunc(order, func(a, b int) int { return cmp.Or(w.compare(a, b), cmp.Compare(a, b)) })
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

// words are the sort keys of all rows, packed: columns of few bits share a
// word. The first word is the most significant.
type words struct {
	values [][]uint64 // by word, then row
	bits   []int      // used, from the low end
}

func (w *words) add(r *ranking) {
	if r.valid != nil {
		w.push(1, func(row int) uint64 { return uint64(flag(!r.valid[row])) }, len(r.codes))
	}
	if n := bits.Len64(r.max); n > 0 {
		w.push(n, func(row int) uint64 { return r.codes[row] }, len(r.codes))
	}
}

func (w *words) push(width int, code func(row int) uint64, rows int) {
	last := len(w.values) - 1
	if last < 0 || w.bits[last]+width > 64 {
		w.values, w.bits = append(w.values, make([]uint64, rows)), append(w.bits, 0)
		last++
	}
	v := w.values[last]
	for row := range v {
		v[row] = v[row]<<width | code(row)
	}
	w.bits[last] += width
}

func (w *words) compare(a, b int) int {
	for _, v := range w.values {
		if c := cmp.Compare(v[a], v[b]); c != 0 {
			return c
		}
	}
	return 0
}

// ranking is a column as codes that order like its values.
type ranking struct {
	codes []uint64
	max   uint64
	valid []bool // nil when no row is null
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
	codes, values, err := Codes(rec, name)
	if err != nil {
		return nil, err
	}
	place := make([]uint64, len(values))
	for i, code := range sortedBy(values) {
		place[code] = uint64(i)
	}
	c := &Col[int32]{Name: name, Values: codes}
	if arr.NullN() > 0 {
		c.valid = validity(arr)
	}
	return rankCol(c, func(code int32) uint64 { return place[code] }), nil
}

func sortedBy(values []string) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(values[a], values[b]) })
	return order
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
