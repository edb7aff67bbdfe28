// Package table works on single Arrow records: reading columns, building
// them from rows, taking, sorting and joining rows, comparing, and the Arrow
// IPC file format. Records hold columns of four types: int64, float64, string
// and bool; Normal brings what other writers use (int32, large strings,
// dictionaries) to these.
//
// Records live on Go's heap; Retain and Release have no effect on memory
// there, and no function here asks for them.
package table

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// The types of columns.
var (
	Int64   arrow.DataType = arrow.PrimitiveTypes.Int64
	Float64 arrow.DataType = arrow.PrimitiveTypes.Float64
	String  arrow.DataType = arrow.BinaryTypes.String
	Bool    arrow.DataType = arrow.FixedWidthTypes.Boolean
)

// Col is a column as Go values. Values at null rows are zero.
type Col[T any] struct {
	Name   string
	Values []T
	valid  []bool // nil when no row is null
}

// Null reports whether row i has no value.
func (c *Col[T]) Null(i int) bool { return c.valid != nil && !c.valid[i] }

// Nulls counts rows without a value.
func (c *Col[T]) Nulls() int {
	n := 0
	for _, ok := range c.valid {
		if !ok {
			n++
		}
	}

	return n
}

// At returns the value of row i; ok is false if it is null.
func (c *Col[T]) At(i int) (v T, ok bool) { return c.Values[i], !c.Null(i) }

// Len returns the number of rows.
func (c *Col[T]) Len() int { return len(c.Values) }

// Index returns the position of the column called name, or -1.
func Index(rec arrow.Record, name string) int {
	if at := rec.Schema().FieldIndices(name); len(at) > 0 {
		return at[0]
	}

	return -1
}

// Has reports whether there is a column called name.
func Has(rec arrow.Record, name string) bool { return Index(rec, name) >= 0 }

// Names returns the column names in order.
func Names(rec arrow.Record) []string {
	names := make([]string, 0, rec.NumCols())
	for _, f := range rec.Schema().Fields() {
		names = append(names, f.Name)
	}

	return names
}

// MissingError reports that a record lacks a column.
type MissingError struct {
	Name string
	Have []string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("no column %q; there are: %s", e.Name, strings.Join(e.Have, ", "))
}

// TypeError reports that a column has another type than requested.
type TypeError struct {
	Name       string
	Have, Want arrow.DataType
}

func (e *TypeError) Error() string {
	return fmt.Sprintf("column %q is %s, not %s", e.Name, TypeName(e.Have), TypeName(e.Want))
}

// TypeName names a type the way messages of this package do.
func TypeName(t arrow.DataType) string {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING:
		return "string"
	case arrow.NULL:
		return "empty"
	}

	return t.String()
}

// Array returns the column called name.
func Array(rec arrow.Record, name string) (arrow.Array, error) {
	i := Index(rec, name)
	if i < 0 {
		return nil, &MissingError{Name: name, Have: Names(rec)}
	}

	return rec.Column(i), nil
}

// Int64s reads a column of integers of any width. An empty (all null) column
// of any type reads as nulls.
func Int64s(rec arrow.Record, name string) (*Col[int64], error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}

	return int64Col(name, arr)
}

// Float64s reads a column of numbers; integers are converted.
func Float64s(rec arrow.Record, name string) (*Col[float64], error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}

	return float64Col(name, arr)
}

// Strings reads a column of strings. The strings share the record's memory.
func Strings(rec arrow.Record, name string) (*Col[string], error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}

	return stringCol(name, arr)
}

// Bools reads a column of booleans.
func Bools(rec arrow.Record, name string) (*Col[bool], error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}

	return boolCol(name, arr)
}

func validity(arr arrow.Array) []bool {
	if arr.NullN() == 0 {
		return nil
	}
	valid := make([]bool, arr.Len())
	for i := range valid {
		valid[i] = arr.IsValid(i)
	}

	return valid
}

func newCol[T any](name string, arr arrow.Array, get func(i int) T) *Col[T] {
	c := &Col[T]{Name: name, Values: make([]T, arr.Len()), valid: validity(arr)}
	for i := range c.Values {
		if c.valid == nil || c.valid[i] {
			c.Values[i] = get(i)
		}
	}

	return c
}

func allNull[T any](name string, n int) *Col[T] {
	return &Col[T]{Name: name, Values: make([]T, n), valid: make([]bool, n)}
}

func int64Col(name string, arr arrow.Array) (*Col[int64], error) {
	switch a := arr.(type) {
	case *array.Int64:
		if a.NullN() == 0 {
			return &Col[int64]{Name: name, Values: a.Int64Values()}, nil
		}

		return newCol(name, arr, a.Value), nil
	case *array.Int32:
		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Int16:
		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Int8:
		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint64:
		for i := range a.Len() {
			if a.IsValid(i) && a.Value(i) > math.MaxInt64 {
				return nil, fmt.Errorf("column %q, row %d: %d is too large for int64", name, i, a.Value(i))
			}
		}

		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint32:
		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint16:
		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	case *array.Uint8:
		return newCol(name, arr, func(i int) int64 { return int64(a.Value(i)) }), nil
	}

	if arr.NullN() == arr.Len() {
		return allNull[int64](name, arr.Len()), nil
	}

	return nil, &TypeError{Name: name, Have: arr.DataType(), Want: Int64}
}

func float64Col(name string, arr arrow.Array) (*Col[float64], error) {
	switch a := arr.(type) {
	case *array.Float64:
		if a.NullN() == 0 {
			return &Col[float64]{Name: name, Values: a.Float64Values()}, nil
		}

		return newCol(name, arr, a.Value), nil
	case *array.Float32:
		return newCol(name, arr, func(i int) float64 { return float64(a.Value(i)) }), nil
	}

	if isInteger(arr.DataType()) {
		ints, err := int64Col(name, arr)
		if err != nil {
			return nil, err
		}
		c := &Col[float64]{Name: name, Values: make([]float64, len(ints.Values)), valid: ints.valid}
		for i, v := range ints.Values {
			c.Values[i] = float64(v)
		}

		return c, nil
	}

	if arr.NullN() == arr.Len() {
		return allNull[float64](name, arr.Len()), nil
	}

	return nil, &TypeError{Name: name, Have: arr.DataType(), Want: Float64}
}

func stringCol(name string, arr arrow.Array) (*Col[string], error) {
	switch a := arr.(type) {
	case *array.String:
		return newCol(name, arr, a.Value), nil
	case *array.LargeString:
		return newCol(name, arr, a.Value), nil
	case *array.Dictionary:
		dict, err := stringCol(name, a.Dictionary())
		if err != nil {
			return nil, err
		}

		return newCol(name, arr, func(i int) string { return dict.Values[a.GetValueIndex(i)] }), nil
	}

	if arr.NullN() == arr.Len() {
		return allNull[string](name, arr.Len()), nil
	}

	return nil, &TypeError{Name: name, Have: arr.DataType(), Want: String}
}

func boolCol(name string, arr arrow.Array) (*Col[bool], error) {
	if a, ok := arr.(*array.Boolean); ok {
		return newCol(name, arr, a.Value), nil
	}
	if arr.NullN() == arr.Len() {
		return allNull[bool](name, arr.Len()), nil
	}

	return nil, &TypeError{Name: name, Have: arr.DataType(), Want: Bool}
}

func isInteger(t arrow.DataType) bool { return arrow.IsInteger(t.ID()) }

// Value returns one cell as int64, float64, string, bool, or nil for null.
func Value(rec arrow.Record, col, row int) any { return valueOf(rec.Column(col), row) }

func valueOf(arr arrow.Array, i int) any {
	if arr.IsNull(i) {
		return nil
	}

	switch a := arr.(type) {
	case *array.Int64:
		return a.Value(i)
	case *array.Float64:
		return a.Value(i)
	case *array.String:
		return a.Value(i)
	case *array.Boolean:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Null:
		return nil
	case *array.Dictionary:
		return valueOf(a.Dictionary(), a.GetValueIndex(i))
	}

	if isInteger(arr.DataType()) {
		one := array.NewSlice(arr, int64(i), int64(i)+1)
		if c, err := int64Col("", one); err == nil {
			return c.Values[0]
		}
	}

	return arr.ValueStr(i)
}

// Row returns row i by column name; null cells are present as nil.
func Row(rec arrow.Record, i int) map[string]any {
	row := make(map[string]any, rec.NumCols())
	for c, f := range rec.Schema().Fields() {
		row[f.Name] = Value(rec, c, i)
	}

	return row
}

// Schema makes a schema of nullable fields from name, type pairs.
func Schema(fields ...arrow.Field) *arrow.Schema {
	out := slices.Clone(fields)
	for i := range out {
		out[i].Nullable = true
	}

	return arrow.NewSchema(out, nil)
}

// Field names a column and its type.
func Field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}
