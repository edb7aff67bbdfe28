package table

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// KeyOptions adjust how values of keys are compared.
type KeyOptions struct {
	// Canon, if not nil, maps the words of a text column before they are compared, for
	// example float16 to bfloat16.
	Canon func(column, word string) string
	// Missing is the value of nulls in a column, and of every row of a table without the column. Without an entry,
	// null equals null, and the rows of tables without the column equal each other and no other row.
	Missing map[string]int64
}

// KeyIndex numbers rows by the values of some of their columns, from 0 in order of first
// appearance. It may number several tables: equal keys have equal numbers. Numbers compare
// by value, so that 1 equals 1.0; NaN equals NaN.
type KeyIndex struct {
	columns []string
	opt     KeyOptions
	ids     map[string]uint32
}

// NewKeyIndex returns an empty index over columns. Without columns all rows have one key.
func NewKeyIndex(columns []string, opt KeyOptions) *KeyIndex {
	return &KeyIndex{columns: columns, opt: opt, ids: map[string]uint32{}}
}

// Len returns the number of distinct keys seen.
func (ix *KeyIndex) Len() int { return len(ix.ids) }

// Number returns the key number of every row of rec.
func (ix *KeyIndex) Number(rec arrow.Record) []uint32 {
	ids := make([]uint32, rec.NumRows())
	ix.each(rec, func(row int, key []byte) {
		id, seen := ix.ids[string(key)]
		if !seen {
			id = uint32(len(ix.ids))
			ix.ids[string(key)] = id
		}
		ids[row] = id
	})
	return ids
}

// Number returns the key number of every row of one table over the named columns, and how many keys it has.
func Number(rec arrow.Record, names ...string) (ids []uint32, n int) {
	ix := NewKeyIndex(names, KeyOptions{})
	return ix.Number(rec), ix.Len()
}

// Keys returns the key of every row over the named columns: a map key, not text to show.
func Keys(rec arrow.Record, names ...string) []string {
	keys := make([]string, rec.NumRows())
	NewKeyIndex(names, KeyOptions{}).each(rec, func(row int, key []byte) { keys[row] = string(key) })
	return keys
}

// each calls f with the key of every row. The key is valid during the call.
func (ix *KeyIndex) each(rec arrow.Record, f func(row int, key []byte)) {
	add := make([]appender, len(ix.columns))
	for i, name := range ix.columns {
		add[i] = ix.appender(rec, name)
	}

	var key []byte
	for row := range Len(rec) {
		key = key[:0]
		for _, appendTo := range add {
			key = appendTo(key, row)
		}
		f(row, key)
	}
}

// An appender appends the value of one column of a row to a key. No value is the beginning
// of another one.
type appender func(key []byte, row int) []byte

func (ix *KeyIndex) appender(rec arrow.Record, name string) appender {
	null, absent := []byte{'0'}, []byte{'a'}
	if v, listed := ix.opt.Missing[name]; listed {
		null = appendInt(nil, v)
		absent = null
	}

	at := Index(rec, name)
	if at < 0 {
		return func(key []byte, _ int) []byte { return append(key, absent...) }
	}

	arr := rec.Column(at)
	var value appender
	switch a := arr.(type) {
	case *array.Int64:
		ints := a.Int64Values()
		value = func(key []byte, row int) []byte { return appendInt(key, ints[row]) }
	case *array.Float64:
		floats := a.Float64Values()
		value = func(key []byte, row int) []byte { return appendFloat(key, floats[row]) }
	case *array.Boolean:
		value = func(key []byte, row int) []byte { return appendBool(key, a.Value(row)) }
	case *array.String:
		value = ix.texts(name, a)
	default:
		panic(unknown(name, arr))
	}

	if arr.NullN() == 0 {
		return value
	}

	return func(key []byte, row int) []byte {
		if arr.IsNull(row) {
			return append(key, null...)
		}

		return value(key, row)
	}
}

func (ix *KeyIndex) texts(name string, a *array.String) appender {
	if ix.opt.Canon == nil {
		return func(key []byte, row int) []byte { return appendText(key, a.Value(row)) }
	}

	canon := map[string]string{}
	return func(key []byte, row int) []byte {
		word := a.Value(row)
		mapped, seen := canon[word]
		if !seen {
			mapped = ix.opt.Canon(name, word)
			canon[word] = mapped
		}

		return appendText(key, mapped)
	}
}

func appendInt(key []byte, v int64) []byte {
	return append(strconv.AppendInt(append(key, 'n'), v, 36), ';')
}

func appendFloat(key []byte, v float64) []byte {
	if v == math.Trunc(v) && v >= -1<<63 && v < 1<<63 {
		return appendInt(key, int64(v))
	}
	if math.IsNaN(v) {
		v = math.NaN()
	}

	return binary.LittleEndian.AppendUint64(append(key, 'f'), math.Float64bits(v))
}

func appendText(key []byte, v string) []byte {
	return append(binary.AppendUvarint(append(key, 's'), uint64(len(v))), v...)
}

func appendBool(key []byte, v bool) []byte { return append(key, 'b', byte(boolInt(v))) }

// Groups lists the rows of every key that occurs more than once in ids, in order of the
// key's first row. n is the index's Len.
func Groups(ids []uint32, n int) [][]int {
	count := make([]int, n)
	for _, id := range ids {
		count[id]++
	}

	group := map[uint32]int{}
	var groups [][]int
	for row, id := range ids {
		if count[id] < 2 {
			continue
		}
		at, seen := group[id]
		if !seen {
			at = len(groups)
			group[id] = at
			groups = append(groups, make([]int, 0, count[id]))
		}

		groups[at] = append(groups[at], row)
	}

	return groups
}

// Codes returns a column of text as numbers: codes[row] is the index of the row's value in
// values, -1 for null. Values are distinct, in order of first appearance.
func Codes(rec arrow.Record, name string) (codes []int32, values []string, err error) {
	c, err := Strings(rec, name)
	if err != nil {
		return nil, nil, err
	}

	codes = make([]int32, c.Len())
	index := map[string]int32{}
	for row, v := range c.Values {
		switch {
		case c.Null(row):
			codes[row] = -1
			continue
		case row > 0 && codes[row-1] >= 0 && v == c.Values[row-1]:
			codes[row] = codes[row-1]
			continue
		}

		code, seen := index[v]
		if !seen {
			code = int32(len(values))
			index[v] = code
			values = append(values, v)
		}

		codes[row] = code
	}

	return codes, values, nil
}

// Counts returns how often each value of a column of text occurs. It returns nil for other columns.
func Counts(rec arrow.Record, name string) map[string]int {
	codes, values, err := Codes(rec, name)
	if err != nil {
		return nil
	}

	counts := make([]int, len(values)+1)
	for _, code := range codes {
		counts[code+1]++
	}

	out := map[string]int{}
	for i, v := range values {
		out[v] = counts[i+1]
	}
	return out
}

// Distinct returns the values of a column of text, sorted. It returns nil for other columns.
func Distinct(rec arrow.Record, name string) []string {
	return slices.Sorted(maps.Keys(Counts(rec, name)))
}

// Text prints one cell without rounding. Null is "".
func Text(col arrow.Array, row int) string {
	switch v := valueOf(col, row).(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}

	return col.ValueStr(row)
}

// Describe prints one row as name=value pairs of those columns that the record has. Floats
// have six digits.
func Describe(rec arrow.Record, row int, columns []string) string {
	var out []byte
	for _, name := range columns {
		at := Index(rec, name)
		if at < 0 {
			continue
		}
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = append(append(out, name...), '=')
		if f, ok := rec.Column(at).(*array.Float64); ok && f.IsValid(row) {
			out = strconv.AppendFloat(out, f.Value(row), 'g', 6, 64)
			continue
		}
		out = append(out, Text(rec.Column(at), row)...)
	}

	return string(out)
}
