package table

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Codes returns a column of strings as numbers: codes[row] is the index of
// the row's value in values, -1 where it is null. Values are distinct, in
// order of first appearance.
func Codes(rec arrow.Record, name string) (codes []int32, values []string, err error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, nil, err
	}
	var value func(row int) string
	if a, ok := arr.(*array.String); ok { // no need to collect the values first
		value = a.Value
	} else {
		c, err := stringCol(name, arr)
		if err != nil {
			return nil, nil, err
		}
		value = func(row int) string { return c.Values[row] }
	}
	codes = make([]int32, arr.Len())
	index := map[string]int32{}
	last, lastCode := "", int32(-1)
	nulls := arr.NullN() > 0
	for row := range codes {
		if nulls && arr.IsNull(row) {
			codes[row] = -1
			continue
		}
		if v := value(row); lastCode < 0 || v != last {
			code, ok := index[v]
			if !ok {
				code = int32(len(values))
				index[v] = code
				values = append(values, v)
			}
			last, lastCode = v, code
		}
		codes[row] = lastCode
	}
	return codes, values, nil
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
		return appendKey(c, func(b []byte, v bool) []byte { return append(b, 'b', flag(v)) }), nil
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

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}
