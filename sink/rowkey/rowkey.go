// Package rowkey numbers the rows of tables by the values in some of their
// columns, so that duplicates, joins and differences become integer work. The
// same Index may number several tables: equal keys get equal numbers.
package rowkey

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Absent is what a missing column reads as: every row has the same value,
// which differs from null and from every other.
type Absent struct{}

// Options adjust how values are compared.
type Options struct {
	// Canon, when set, maps the words of a text column before they are
	// compared, for example float16 to bfloat16.
	Canon func(column, word string) string
	// Missing is the value of a column that a table lacks and for
	// nulls in it: an int64, float64, string or bool. Columns that are not
	// listed compare as Absent.
	Missing map[string]any
}

// Index numbers keys from 0 in order of first appearance.
type Index struct {
	columns []string
	opt     Options
	dicts   []dict
	combos  []map[uint64]uint32 // numbers of pairs: of the columns before, and of this one
}

// dict numbers the values of one column.
type dict struct {
	n      uint32
	texts  map[string]uint32
	ints   map[int64]uint32
	others map[any]uint32
	last   arrow.Array // a column that was numbered
	codes  []uint32    // of last
}

// New returns an empty index over columns. Without columns every row has the
// same key.
func New(columns []string, opt Options) *Index {
	ix := &Index{columns: columns, opt: opt}
	ix.dicts = make([]dict, len(columns))
	for i := range ix.dicts {
		ix.dicts[i] = dict{texts: map[string]uint32{}, ints: map[int64]uint32{}, others: map[any]uint32{}}
	}
	ix.combos = make([]map[uint64]uint32, len(columns))
	for i := range ix.combos {
		ix.combos[i] = map[uint64]uint32{}
	}
	return ix
}

// Len is the number of distinct keys seen.
func (ix *Index) Len() int {
	switch n := len(ix.columns); n {
	case 0:
		return 1
	case 1:
		return int(ix.dicts[0].n)
	default:
		return len(ix.combos[n-1])
	}
}

// Number returns the key number of every row of rec. An error names a column
// whose type cannot be part of a key.
func (ix *Index) Number(rec arrow.Record) ([]uint32, error) {
	n := int(rec.NumRows())
	if len(ix.columns) == 0 {
		return make([]uint32, n), nil
	}
	var ids []uint32
	for c, name := range ix.columns {
		codes, err := ix.codes(c, name, rec, n)
		if err != nil {
			return nil, err
		}
		if c == 0 {
			ids = slices.Clone(codes)
			continue
		}
		combos := ix.combos[c]
		var lastPair uint64
		var id uint32
		for i := range n {
			pair := uint64(ids[i])<<32 | uint64(codes[i])
			if i == 0 || pair != lastPair {
				var seen bool
				if id, seen = combos[pair]; !seen {
					id = uint32(len(combos))
					combos[pair] = id
				}
				lastPair = pair
			}
			ids[i] = id
		}
	}
	return ids, nil
}

// codes numbers the values of a column. The result is the index's own.
func (ix *Index) codes(c int, name string, rec arrow.Record, n int) ([]uint32, error) {
	codes := make([]uint32, n)
	missing, hasMissing := ix.opt.Missing[name]
	if !hasMissing {
		missing = nil
	}
	at := rec.Schema().FieldIndices(name)
	if len(at) == 0 {
		var v any = Absent{}
		if hasMissing {
			v = canonical(missing)
		}
		code := ix.code(c, v)
		for i := range codes {
			codes[i] = code
		}
		return codes, nil
	}
	null := canonical(missing)
	col := rec.Column(at[0])
	d := &ix.dicts[c]
	if d.last == col || sameTexts(d.last, col) {
		return d.codes, nil // tables of one stage share columns
	}
	switch a := col.(type) {
	case *array.String:
		ix.textCodes(c, name, n, codes, null, a.IsNull, a.Value)
	case *array.LargeString:
		ix.textCodes(c, name, n, codes, null, a.IsNull, a.Value)
	case *array.Dictionary:
		words, ok := a.Dictionary().(interface{ Value(int) string })
		if !ok {
			return nil, fmt.Errorf("column %q: a dictionary of %s cannot be part of a key", name, a.Dictionary().DataType())
		}
		ix.textCodes(c, name, n, codes, null, a.IsNull, func(i int) string { return words.Value(a.GetValueIndex(i)) })
	case *array.Int64:
		var last int64
		var code uint32
		have := false
		for i, v := range a.Int64Values() {
			if a.IsNull(i) {
				codes[i] = ix.code(c, null)
				continue
			}
			if !have || v != last {
				code, last, have = d.int(v), v, true
			}
			codes[i] = code
		}
	default:
		get, err := scalar(col)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
		var last any
		var code uint32
		for i := range n {
			v := null
			if !col.IsNull(i) {
				v = get(i)
			}
			if i == 0 || v != last {
				code, last = ix.code(c, v), v
			}
			codes[i] = code
		}
	}
	d.last, d.codes = col, codes
	return codes, nil
}

func (ix *Index) textCodes(c int, name string, n int, codes []uint32, null any, isNull func(int) bool, value func(int) string) {
	d := &ix.dicts[c]
	var seen map[string]uint32 // by the raw word, where words are mapped
	if ix.opt.Canon != nil {
		seen = map[string]uint32{}
	}
	var last string
	var code uint32
	have := false
	for i := range n {
		if isNull(i) {
			codes[i] = ix.code(c, null)
			continue
		}
		w := value(i)
		if have && w == last {
			codes[i] = code
			continue
		}
		last, have = w, true
		if seen == nil {
			code = d.text(w)
		} else if id, ok := seen[w]; ok {
			code = id
		} else {
			code = d.text(ix.opt.Canon(name, w))
			seen[w] = code
		}
		codes[i] = code
	}
}

func (d *dict) text(v string) uint32 {
	id, ok := d.texts[v]
	if !ok {
		id = d.n
		d.n++
		d.texts[v] = id
	}
	return id
}

func (d *dict) int(v int64) uint32 {
	id, ok := d.ints[v]
	if !ok {
		id = d.n
		d.n++
		d.ints[v] = id
	}
	return id
}

func (ix *Index) code(c int, v any) uint32 {
	d := &ix.dicts[c]
	switch v := v.(type) {
	case string:
		return d.text(v)
	case int64:
		return d.int(v)
	}
	id, ok := d.others[v]
	if !ok {
		id = d.n
		d.n++
		d.others[v] = id
	}
	return id
}

// sameTexts says whether two columns have the same texts in the same rows, where
// that is cheap to see.
func sameTexts(a, b arrow.Array) bool {
	x, ok := a.(*array.String)
	y, also := b.(*array.String)
	if !ok || !also || x.Len() == 0 || x.Len() != y.Len() || x.NullN() > 0 || y.NullN() > 0 {
		return false
	}
	if !slices.Equal(x.ValueOffsets(), y.ValueOffsets()) {
		return false
	}
	return bytes.Equal(x.ValueBytes(), y.ValueBytes())
}

// canonical makes equal numbers equal whatever their Go type; NaN equals
// itself.
func canonical(v any) any {
	switch x := v.(type) {
	case int:
		return int64(x)
	case float64:
		return canonFloat(x)
	}
	return v
}

type nan struct{}

func canonFloat(x float64) any {
	if math.IsNaN(x) {
		return nan{}
	}
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return int64(x)
	}
	return x
}

func scalar(col arrow.Array) (func(int) any, error) {
	switch a := col.(type) {
	case *array.Int64:
		return func(i int) any { return a.Value(i) }, nil
	case *array.Int32:
		return func(i int) any { return int64(a.Value(i)) }, nil
	case *array.Int16:
		return func(i int) any { return int64(a.Value(i)) }, nil
	case *array.Int8:
		return func(i int) any { return int64(a.Value(i)) }, nil
	case *array.Uint64:
		return func(i int) any {
			if v := a.Value(i); v <= math.MaxInt64 {
				return int64(v)
			} else {
				return v
			}
		}, nil
	case *array.Uint32:
		return func(i int) any { return int64(a.Value(i)) }, nil
	case *array.Uint16:
		return func(i int) any { return int64(a.Value(i)) }, nil
	case *array.Uint8:
		return func(i int) any { return int64(a.Value(i)) }, nil
	case *array.Float64:
		return func(i int) any { return canonFloat(a.Value(i)) }, nil
	case *array.Float32:
		return func(i int) any { return canonFloat(float64(a.Value(i))) }, nil
	case *array.Boolean:
		return func(i int) any { return a.Value(i) }, nil
	case *array.Null:
		return func(int) any { return nil }, nil
	}
	return nil, fmt.Errorf("a column of %s cannot be part of a key", col.DataType())
}

// Groups lists the rows of every key that occurs more than once in ids, in
// order of the key's first row. n is the index's Len.
func Groups(ids []uint32, n int) [][]int {
	count := make([]uint32, n)
	for _, id := range ids {
		count[id]++
	}
	slot := make([]int, n)
	var groups [][]int
	for i, id := range ids {
		if count[id] < 2 {
			continue
		}
		if slot[id] == 0 {
			groups = append(groups, make([]int, 0, count[id]))
			slot[id] = len(groups)
		}
		groups[slot[id]-1] = append(groups[slot[id]-1], i)
	}
	return groups
}

// Text prints the value of one cell; "" for null.
func Text(col arrow.Array, row int) string {
	if col.IsNull(row) {
		return ""
	}
	switch a := col.(type) {
	case *array.String:
		return a.Value(row)
	case *array.LargeString:
		return a.Value(row)
	case *array.Float64:
		return strconv.FormatFloat(a.Value(row), 'g', -1, 64)
	case *array.Float32:
		return strconv.FormatFloat(float64(a.Value(row)), 'g', -1, 32)
	case *array.Int64:
		return strconv.FormatInt(a.Value(row), 10)
	}
	return col.ValueStr(row)
}

// Describe prints one row as name=value pairs of those columns that the
// record has, floats with six digits.
func Describe(rec arrow.Record, row int, columns []string) string {
	var out []byte
	for _, name := range columns {
		at := rec.Schema().FieldIndices(name)
		if len(at) == 0 {
			continue
		}
		if len(out) > 0 {
			out = append(out, ' ')
		}
		out = append(out, name...)
		out = append(out, '=')
		if f, ok := rec.Column(at[0]).(*array.Float64); ok && f.IsValid(row) {
			out = strconv.AppendFloat(out, f.Value(row), 'g', 6, 64)
			continue
		}
		out = append(out, Text(rec.Column(at[0]), row)...)
	}
	return string(out)
}
