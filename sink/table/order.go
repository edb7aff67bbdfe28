package table

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

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
// bytes, false is before true, NaN is behind all numbers, and null is last,
// ascending or not.
func SortIndices(rec arrow.Record, keys ...SortKey) ([]int, error) {
	compare := make([]func(a, b int) int, len(keys))
	for i, k := range keys {
		c, err := comparer(rec, k)
		if err != nil {
			return nil, err
		}
		compare[i] = c
	}
	rows := make([]int, rec.NumRows())
	sorted := true
	less := func(a, b int) int {
		for _, c := range compare {
			if r := c(a, b); r != 0 {
				return r
			}
		}
		return 0
	}
	for i := range rows {
		rows[i] = i
		sorted = sorted && (i == 0 || less(i-1, i) <= 0)
	}
	if !sorted {
		slices.SortStableFunc(rows, less)
	}
	return rows, nil
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

func comparer(rec arrow.Record, k SortKey) (func(a, b int) int, error) {
	arr, err := Array(rec, k.Name)
	if err != nil {
		return nil, err
	}
	t, _ := normalType(arr.DataType())
	switch {
	case t == nil:
		return nil, &TypeError{Name: k.Name, Have: arr.DataType(), Want: String}
	case t.ID() == arrow.INT64:
		c, err := int64Col(k.Name, arr)
		if err != nil {
			return nil, err
		}
		return compareCol(c, k.Desc, cmp.Compare[int64]), nil
	case t.ID() == arrow.FLOAT64:
		c, err := float64Col(k.Name, arr)
		if err != nil {
			return nil, err
		}
		return compareCol(c, k.Desc, compareFloat), nil
	case t.ID() == arrow.BOOL:
		c, err := boolCol(k.Name, arr)
		if err != nil {
			return nil, err
		}
		return compareCol(c, k.Desc, func(a, b bool) int { return cmp.Compare(flag(a), flag(b)) }), nil
	}
	c, err := stringCol(k.Name, arr)
	if err != nil {
		return nil, err
	}
	return compareCol(c, k.Desc, cmp.Compare[string]), nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compareFloat has NaN behind the numbers and equal to itself.
func compareFloat(a, b float64) int {
	switch an, bn := math.IsNaN(a), math.IsNaN(b); {
	case an && bn:
		return 0
	case an:
		return 1
	case bn:
		return -1
	}
	return cmp.Compare(a, b)
}

func compareCol[T any](c *Col[T], desc bool, compare func(a, b T) int) func(a, b int) int {
	return func(a, b int) int {
		switch an, bn := c.Null(a), c.Null(b); {
		case an && bn:
			return 0
		case an:
			return 1
		case bn:
			return -1
		}
		r := compare(c.Values[a], c.Values[b])
		if desc {
			return -r
		}
		return r
	}
}

// Keys returns one string for every row, equal exactly where all the named
// columns are equal: as a map key, not for display. Numbers compare by value,
// so that 1 in an int64 column equals 1.0 in a float64 column of another
// table; null equals null, NaN equals NaN.
func Keys(rec arrow.Record, names ...string) ([]string, error) {
	n := int(rec.NumRows())
	add := make([]func(b []byte, row int) []byte, len(names))
	for i, name := range names {
		f, err := keyAppender(rec, name)
		if err != nil {
			return nil, err
		}
		add[i] = f
	}
	keys := make([]string, n)
	// The keys share a few large strings: one allocation for many rows.
	const block = 1 << 16
	buf := make([]byte, 0, block)
	ends := make([]int, 0, 1024)
	first := 0
	flush := func() {
		all := string(buf)
		start := 0
		for i, end := range ends {
			keys[first+i] = all[start:end]
			start = end
		}
		first += len(ends)
		buf, ends = buf[:0], ends[:0]
	}
	for row := range n {
		for _, f := range add {
			buf = f(buf, row)
		}
		ends = append(ends, len(buf))
		if len(buf) > block-512 {
			flush()
		}
	}
	flush()
	return keys, nil
}

func keyAppender(rec arrow.Record, name string) (func(b []byte, row int) []byte, error) {
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
		return appendKey(c, appendIntKey), nil
	case t.ID() == arrow.FLOAT64:
		c, err := float64Col(name, arr)
		if err != nil {
			return nil, err
		}
		return appendKey(c, appendFloatKey), nil
	case t.ID() == arrow.BOOL:
		c, err := boolCol(name, arr)
		if err != nil {
			return nil, err
		}
		return appendKey(c, func(b []byte, v bool) []byte { return append(b, 'b', byte(flag(v))) }), nil
	}
	c, err := stringCol(name, arr)
	if err != nil {
		return nil, err
	}
	return appendKey(c, func(b []byte, v string) []byte {
		b = binary.AppendUvarint(append(b, 's'), uint64(len(v)))
		return append(b, v...)
	}), nil
}

func appendKey[T any](c *Col[T], add func([]byte, T) []byte) func(b []byte, row int) []byte {
	return func(b []byte, row int) []byte {
		if c.Null(row) {
			return append(b, '0')
		}
		return add(b, c.Values[row])
	}
}

func appendIntKey(b []byte, v int64) []byte {
	return append(strconv.AppendInt(append(b, 'n'), v, 36), ';')
}

func appendFloatKey(b []byte, v float64) []byte {
	if v == math.Trunc(v) && v >= -1<<63 && v < 1<<63 {
		return appendIntKey(b, int64(v))
	}
	if math.IsNaN(v) {
		v = math.NaN()
	}
	return binary.LittleEndian.AppendUint64(append(b, 'f'), math.Float64bits(v))
}
