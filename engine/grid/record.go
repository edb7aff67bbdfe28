package grid

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/zclconf/go-cty/cty"
)

// Record returns the case table: case_id, the columns, the table constants and status ("planned").
// A number column is int64 if all its values are integers, otherwise float64. Columns are built on
// first access and must not be modified.
func (c *Cases) Record() arrow.Record { return c.record() }

func (c *Cases) makeRecord() arrow.Record { return tableOf(c.Spec, c.columns, c.n, c.ids) }

// tableOf returns a case table of n rows with the given columns. ids returns the concatenated case
// IDs.
func tableOf(spec *Spec, columns []column, n int, ids func() []byte) arrow.Record {
	text := func(name string, width int, data func() []byte) lazyColumn {
		return lazyColumn{arrow.Field{Name: name, Type: arrow.BinaryTypes.String},
			func() arrow.Array { return fixedTexts(data(), width) }}
	}
	all := make([]lazyColumn, 0, len(columns)+len(spec.Constants)+2)
	all = append(all, text("case_id", IDLength, ids))

	for i := range columns {
		k := &columns[i]
		null := slices.ContainsFunc(k.dict, cty.Value.IsNull) &&
			slices.ContainsFunc(k.ids, func(id int32) bool { return k.dict[id].IsNull() })
		all = append(all, lazyColumn{arrow.Field{Name: k.name, Type: k.dataType(), Nullable: null}, k.array})
	}

	for _, c := range spec.Constants {
		k := newColumn(c.Name, []cty.Value{c.Value}, nil)
		all = append(all, lazyColumn{arrow.Field{Name: k.name, Type: k.dataType(), Nullable: n > 0 && c.Value.IsNull()},
			func() arrow.Array {
				full := k
				full.ids = make([]int32, n)
				return full.array()
			}})
	}

	all = append(all, text("status", len("planned"), func() []byte { return bytes.Repeat([]byte("planned"), n) }))
	return newLazyRecord(n, all)
}

// fixedTexts returns a string column of texts that are width bytes each and concatenated in data.
// It keeps data without copying.
func fixedTexts(data []byte, width int) arrow.Array {
	n := len(data) / width
	offsets := make([]int32, n+1)
	for i := range offsets {
		offsets[i] = int32(i * width)
	}
	d := array.NewData(arrow.BinaryTypes.String, n,
		[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)),
			memory.NewBufferBytes(data)},
		nil, 0, 0)
	return array.NewStringData(d)
}

// dataType returns the Arrow type of the column.
func (k *column) dataType() arrow.DataType {
	switch k.kind {
	case kindInt:
		return arrow.PrimitiveTypes.Int64
	case kindFloat:
		return arrow.PrimitiveTypes.Float64
	case kindBool:
		return arrow.FixedWidthTypes.Boolean
	}
	return arrow.BinaryTypes.String
}

// array returns the values of the column as an Arrow array.
func (k *column) array() arrow.Array {
	valid := make([]bool, len(k.dict))
	for i, v := range k.dict {
		valid[i] = !v.IsNull()
	}

	switch k.kind {
	case kindInt:
		return spread(array.NewInt64Builder(memory.DefaultAllocator), k, valid, func(v cty.Value) int64 {
			i, _ := v.AsBigFloat().Int64()
			return i
		})
	case kindFloat:
		return spread(array.NewFloat64Builder(memory.DefaultAllocator), k, valid, func(v cty.Value) float64 {
			f, _ := v.AsBigFloat().Float64()
			return f
		})

	case kindBool:
		return spread(array.NewBooleanBuilder(memory.DefaultAllocator), k, valid, cty.Value.True)
	}

	return spread(array.NewStringBuilder(memory.DefaultAllocator), k, valid, cty.Value.AsString)
}

// builder contains the methods that all Arrow builders have.
type builder[T any] interface {
	AppendValues(values []T, valid []bool)
	NewArray() arrow.Array
}

func spread[T any](b builder[T], k *column, valid []bool, conv func(cty.Value) T) arrow.Array {
	dict := make([]T, len(k.dict))
	for i, v := range k.dict {
		if valid[i] {
			dict[i] = conv(v)
		}
	}

	out := make([]T, len(k.ids))
	for i, id := range k.ids {
		out[i] = dict[id]
	}

	var flags []bool // nil if no value is null
	if slices.Contains(valid, false) {
		flags = make([]bool, len(k.ids))
		for i, id := range k.ids {
			flags[i] = valid[id]
		}
	}

	b.AppendValues(out, flags)
	return b.NewArray()
}

// ParamsJSON returns case i as a JSON object. The keys are in column order.
func (c *Cases) ParamsJSON(i int) []byte {
	return appendObject(make([]byte, 0, 24*len(c.columns)+2), c.columns, i)
}

// Plain returns the value of column col of row i as a JSON decoder would: a string, json.Number,
// bool, or nil.
func (r rows) Plain(i, col int) any {
	k := &r.columns[col]
	switch v := k.dict[k.ids[i]]; {
	case v.IsNull():
		return nil
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Bool:
		return v.True()
	}
	return json.Number(k.texts[k.ids[i]])
}

// appendObject appends one row as a JSON object. The format of a number depends only on the number, and
// integers have no decimal point: the JSON of a case must not depend on other values of the column.
func appendObject(out []byte, columns []column, row int) []byte {
	out = append(out, '{')
	for j := range columns {
		k := &columns[j]
		if j > 0 {
			out = append(out, ',')
		}
		out = append(append(out, k.key...), ':')
		out = append(out, k.texts[k.ids[row]]...)
	}
	return append(out, '}')
}
