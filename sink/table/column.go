// Package table works on single Arrow records: reading columns, building
// them from rows, taking, sorting and joining rows, comparing, and the Arrow
// IPC file format. Records have columns of four types: int64, float64, string
// and bool. Readers of files convert or reject other types; a function that gets a column of another type panics.
//
// Records live on Go's heap; Retain and Release have no effect on memory
// there, and no function here asks for them.
package table

import (
	"embed"
	"fmt"
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
	Valid  []bool // nil when no row is null
}

// Null reports whether row i has no value. No row of a nil column has one.
func (c *Col[T]) Null(i int) bool { return c == nil || c.Valid != nil && !c.Valid[i] }

// Nulls counts rows without a value.
func (c *Col[T]) Nulls() int {
	n := 0
	for _, ok := range c.Valid {
		if !ok {
			n++
		}
	}

	return n
}

// At returns the value of row i; ok is false if it is null.
func (c *Col[T]) At(i int) (v T, ok bool) {
	if c.Null(i) {
		return v, false
	}
	return c.Values[i], true
}

// Len returns the number of rows.
func (c *Col[T]) Len() int { return len(c.Values) }

// Len returns the number of rows. A nil record has none.
func Len(rec arrow.Record) int {
	if rec == nil {
		return 0
	}
	return int(rec.NumRows())
}

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

// Missing returns the error that a record lacks a column.
func Missing(rec arrow.Record, name string) error {
	return fmt.Errorf("no column %q; there are: %s", name, strings.Join(Names(rec), ", "))
}

// TypeName names a type the way messages of this package do.
func TypeName(t arrow.DataType) string {
	if t.ID() == arrow.STRING {
		return "string"
	}
	return t.String()
}

// Array returns the column called name.
func Array(rec arrow.Record, name string) (arrow.Array, error) {
	i := Index(rec, name)
	if i < 0 {
		return nil, Missing(rec, name)
	}

	return rec.Column(i), nil
}

// Int64s reads a column of integers. The values may share the record's memory.
func Int64s(rec arrow.Record, name string) (*Col[int64], error) {
	arr, _ := Array(rec, name)
	if a, ok := arr.(*array.Int64); ok && a.NullN() == 0 {
		return &Col[int64]{Name: name, Values: a.Int64Values()}, nil
	}
	return read[int64, *array.Int64](rec, name, Int64)
}

// Float64s reads a column of numbers; integers are converted. The values may share the record's memory.
func Float64s(rec arrow.Record, name string) (*Col[float64], error) {
	arr, _ := Array(rec, name)
	switch a := arr.(type) {
	case *array.Float64:
		if a.NullN() == 0 {
			return &Col[float64]{Name: name, Values: a.Float64Values()}, nil
		}

	case *array.Int64:
		ints, err := read[int64, *array.Int64](rec, name, Int64)
		if err != nil {
			return nil, err
		}

		c := &Col[float64]{Name: name, Values: make([]float64, a.Len()), Valid: ints.Valid}
		for i, v := range ints.Values {
			c.Values[i] = float64(v)
		}
		return c, nil
	}

	return read[float64, *array.Float64](rec, name, Float64)
}

// Strings reads a column of strings. The strings share the record's memory.
func Strings(rec arrow.Record, name string) (*Col[string], error) {
	return read[string, *array.String](rec, name, String)
}

// Empty counts the rows that are null or an empty text.
func Empty(c *Col[string]) (n int) {
	for i, v := range c.Values {
		if v == "" || c.Null(i) {
			n++
		}
	}
	return n
}

// Bools reads a column of booleans.
func Bools(rec arrow.Record, name string) (*Col[bool], error) {
	return read[bool, *array.Boolean](rec, name, Bool)
}

// read reads the values of a column. A column of another type is an error unless all of its values are null.
func read[T any, A interface{ Value(int) T }](rec arrow.Record, name string, want arrow.DataType) (*Col[T], error) {
	arr, err := Array(rec, name)
	if err != nil {
		return nil, err
	}

	c := &Col[T]{Name: name, Values: make([]T, arr.Len())}
	if arr.NullN() > 0 {
		c.Valid = make([]bool, arr.Len())
	}

	typed, ok := arr.(A)
	if !ok && arr.NullN() < arr.Len() {
		return nil, fmt.Errorf("column %q is %s, not %s", name, TypeName(arr.DataType()), TypeName(want))
	}

	for i := range c.Values {
		if arr.IsNull(i) {
			continue
		}

		c.Values[i] = typed.Value(i)
		if c.Valid != nil {
			c.Valid[i] = true
		}
	}

	return c, nil
}

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

// Field names a column and its type.
func Field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// Source is the code of this package: checkpoints of what follows from it are
// stale when it changes.
//
//go:embed *.go
var Source embed.FS
