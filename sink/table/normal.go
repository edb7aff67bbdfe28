package table

import (
	"fmt"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

var mem = memory.DefaultAllocator

// Ints makes a column; valid may be nil (no nulls). Values at null rows are
// cleared, so that equal columns have equal bytes.
func Ints(values []int64, valid []bool) arrow.Array {
	b := array.NewInt64Builder(mem)
	b.AppendValues(clearNulls(values, valid), valid)
	return b.NewArray()
}

// Floats makes a column; valid may be nil. Every NaN is stored with the same
// bits.
func Floats(values []float64, valid []bool) arrow.Array {
	values = clearNulls(values, valid)
	if i := slices.IndexFunc(values, math.IsNaN); i >= 0 {
		values = slices.Clone(values)
		for ; i < len(values); i++ {
			if math.IsNaN(values[i]) {
				values[i] = math.NaN()
			}
		}
	}

	b := array.NewFloat64Builder(mem)
	b.AppendValues(values, valid)
	return b.NewArray()
}

// Texts makes a column; valid may be nil.
func Texts(values []string, valid []bool) arrow.Array {
	values = clearNulls(values, valid)
	size := 0
	for _, v := range values {
		size += len(v)
	}
	b := array.NewStringBuilder(mem)
	b.Reserve(len(values))
	b.ReserveData(size)
	if valid == nil {
		for _, v := range values {
			b.Append(v)
		}

		return b.NewArray()
	}

	for i, v := range values {
		if valid[i] {
			b.Append(v)
		} else {
			b.AppendNull()
		}
	}

	return b.NewArray()
}

// TextsOf makes a column of n texts without nulls, each as write appends it: for
// texts that need not exist one by one.
func TextsOf(n int, write func(i int, b []byte) []byte) arrow.Array {
	// Twice, so that no memory is taken that is not needed: the first time for the
	// size.
	var buf []byte
	size := 0
	for i := range n {
		buf = write(i, buf[:0])
		size += len(buf)
	}
	if size > math.MaxInt32 {
		panic(fmt.Sprintf("table: a column of %d bytes of text", size))
	}
	data, offsets := make([]byte, 0, size), make([]int32, 1, n+1)
	for i := range n {
		data = write(i, data)
		offsets = append(offsets, int32(len(data)))
	}
	d := array.NewData(String, n, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), memory.NewBufferBytes(data)}, nil, 0, 0)
	return array.NewStringData(d)
}

// Flags makes a column of booleans; valid may be nil.
func Flags(values []bool, valid []bool) arrow.Array {
	b := array.NewBooleanBuilder(mem)
	b.AppendValues(clearNulls(values, valid), valid)
	return b.NewArray()
}

func clearNulls[T comparable](values []T, valid []bool) []T {
	var zero T
	cloned := false
	for i, ok := range valid {
		if ok || values[i] == zero {
			continue
		}
		if !cloned {
			values, cloned = slices.Clone(values), true
		}
		values[i] = zero
	}

	return values
}

// Nulls makes a column of n nulls of type t, one of the four.
func Nulls(t arrow.DataType, n int) arrow.Array {
	return array.MakeArrayOfNull(mem, t, n)
}

// NewRecord puts columns of equal length together; all fields are nullable.
func NewRecord(names []string, cols []arrow.Array) arrow.Record {
	fields := make([]arrow.Field, len(names))
	rows := int64(0)
	for i, name := range names {
		fields[i] = Field(name, cols[i].DataType())
		rows = int64(cols[i].Len())
	}

	return array.NewRecord(arrow.NewSchema(fields, nil), cols, rows)
}

// Empty returns a record without rows. Types other than the four panic.
func Empty(schema *arrow.Schema) arrow.Record {
	b := array.NewRecordBuilder(mem, schema)
	return b.NewRecord()
}

// Normal returns rec in the one form that equal data has: columns of the four
// types, null cells cleared, no slack, nullable fields, no metadata. An
// all-null column without a type becomes string. Columns that cannot be
// brought to the four types are an error that names them.
func Normal(rec arrow.Record) (arrow.Record, error) {
	names := Names(rec)
	cols := make([]arrow.Array, len(names))
	for i, name := range names {
		arr, err := normalArray(name, rec.Column(i))
		if err != nil {
			return nil, err
		}
		cols[i] = arr
	}

	out := NewRecord(names, cols)
	if len(cols) == 0 {
		out = array.NewRecord(out.Schema(), nil, rec.NumRows())
	}

	return out, nil
}

// Plain returns rec with columns of the four types: rec itself if it has no others.
func Plain(rec arrow.Record) (arrow.Record, error) {
	for _, c := range rec.Columns() {
		switch c.DataType().ID() {
		case arrow.INT64, arrow.FLOAT64, arrow.STRING, arrow.BOOL:
		default:
			return Normal(rec)
		}
	}

	return rec, nil
}

func normalArray(name string, arr arrow.Array) (arrow.Array, error) {
	t, ok := normalType(arr.DataType())
	if !ok {
		return nil, fmt.Errorf("column %q has the type %s; only integers, floats, strings and booleans can be kept", name, arr.DataType())
	}

	return convert(name, arr, t)
}

func normalType(t arrow.DataType) (arrow.DataType, bool) {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.NULL:
		return String, true
	case arrow.FLOAT32, arrow.FLOAT64:
		return Float64, true
	case arrow.BOOL:
		return Bool, true
	case arrow.DICTIONARY:
		inner, ok := normalType(t.(*arrow.DictionaryType).ValueType)
		return inner, ok && inner.ID() == arrow.STRING
	}

	if isInteger(t) {
		return Int64, true
	}

	return nil, false
}

// isNormal reports whether arr already has the bytes of its normal form. If no cell or
// every cell is null, the writer creates the validity bits itself.
func isNormal(arr arrow.Array) bool {
	n, nulls := arr.Len(), arr.NullN()
	if nulls > 0 && nulls < n || arr.Data().Offset() != 0 {
		return false
	}
	bufs := arr.Data().Buffers()
	if len(bufs) < 2 || bufs[1] == nil {
		return false
	}

	switch a := arr.(type) {
	case *array.Int64:
		return bufs[1].Len() == 8*n && (nulls == 0 || zeros(a.Int64Values()))
	case *array.Float64:
		if nulls > 0 {
			return bufs[1].Len() == 8*n && zeros(arrow.Int64Traits.CastFromBytes(bufs[1].Bytes()))
		}

		return bufs[1].Len() == 8*n && !slices.ContainsFunc(a.Float64Values(), math.IsNaN)
	case *array.String:
		return n > 0 && nulls == 0 && len(bufs) > 2 && bufs[2] != nil && bufs[1].Len() == 4*(n+1) && a.ValueOffset(0) == 0 && a.ValueOffset(n) == bufs[2].Len()
	}

	return false
}

func zeros(bits []int64) bool {
	return !slices.ContainsFunc(bits, func(v int64) bool { return v != 0 })
}

// convert rebuilds arr as one of the four types.
func convert(name string, arr arrow.Array, t arrow.DataType) (arrow.Array, error) {
	if arr.DataType().ID() == t.ID() && isNormal(arr) {
		return arr, nil
	}

	switch t.ID() {
	case arrow.INT64:
		c, err := int64Col(name, arr)
		if err != nil {
			return nil, err
		}

		return Ints(c.Values, c.valid), nil
	case arrow.FLOAT64:
		c, err := float64Col(name, arr)
		if err != nil {
			return nil, err
		}

		return Floats(c.Values, c.valid), nil
	case arrow.STRING:
		c, err := stringCol(name, arr)
		if err != nil {
			return nil, err
		}

		return Texts(c.Values, c.valid), nil
	case arrow.BOOL:
		c, err := boolCol(name, arr)
		if err != nil {
			return nil, err
		}

		return Flags(c.Values, c.valid), nil
	}

	return nil, fmt.Errorf("column %q: %s is not a column type", name, t)
}
