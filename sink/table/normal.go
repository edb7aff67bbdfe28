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

// convert rebuilds arr as one of the four types.
func convert(name string, arr arrow.Array, t arrow.DataType) (arrow.Array, error) {
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
