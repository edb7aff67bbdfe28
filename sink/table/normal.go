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
	for i, v := range values {
		if valid == nil || valid[i] {
			b.Append(v)
		} else {
			b.AppendNull()
		}
	}

	return b.NewArray()
}

// TextsOf makes a column of n texts without nulls. write appends a text to b; it is called twice for each text, so
// that the column takes no more memory than it needs.
func TextsOf(n int, write func(i int, b []byte) []byte) arrow.Array {
	var buf []byte
	size := 0
	for i := range n {
		buf = write(i, buf[:0])
		size += len(buf)
	}

	b := array.NewStringBuilder(mem)
	b.Reserve(n)
	b.ReserveData(size)
	for i := range n {
		buf = write(i, buf[:0])
		b.BinaryBuilder.Append(buf)
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
	rows := int64(0)
	if len(cols) > 0 {
		rows = int64(cols[0].Len())
	}
	return array.NewRecord(arrow.NewSchema(fieldsOf(names, cols), nil), cols, rows)
}

func fieldsOf(names []string, cols []arrow.Array) []arrow.Field {
	fields := make([]arrow.Field, len(names))
	for i, name := range names {
		fields[i] = Field(name, cols[i].DataType())
	}
	return fields
}

// Normal returns rec in the one form that equal data has: null cells cleared, no slack, nullable fields, no
// metadata. A column whose type is not one of the four is an error.
func Normal(rec arrow.Record) (arrow.Record, error) {
	names := Names(rec)
	cols := make([]arrow.Array, len(names))
	for i, name := range names {
		var err error
		if cols[i], err = pick(name, rec.Column(i), nil); err != nil {
			return nil, err
		}
	}

	out := NewRecord(names, cols)
	if len(cols) == 0 {
		out = array.NewRecord(out.Schema(), nil, rec.NumRows())
	}
	return out, nil
}

// unknown returns the error that a column has another type than the four. Files may have such columns, tables do not.
func unknown(name string, arr arrow.Array) error {
	return fmt.Errorf("column %q has the type %s; only integers, floats, strings and booleans can be kept", name,
		arr.DataType())
}
