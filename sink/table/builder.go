package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
)

// Builder makes a record from rows. Declared columns keep their type and place; others are
// found in the rows and get the type of their values: int64, float64, string or bool. An
// int64 column becomes float64 if a float follows. A column without any value becomes
// string.
//
// Values are nil, booleans, strings, integers and floats of every width, and json.Number,
// which is an integer if it is written as one.
type Builder struct {
	cols   []*column
	byName map[string]*column
	fixed  bool
	rows   int
}

// column is a column whose values have its type. Rows without a value are nil or missing at
// the end.
type column struct {
	name     string
	typ      arrow.DataType // nil before the first value
	declared bool
	values   []any
}

// NewBuilder starts with the given columns. The type of a field without one is inferred.
func NewBuilder(fields ...arrow.Field) *Builder {
	b := &Builder{byName: map[string]*column{}}
	for _, f := range fields {
		if b.byName[f.Name] != nil {
			panic("table: column " + strconv.Quote(f.Name) + " is declared twice")
		}
		c := b.add(f.Name)
		c.typ, c.declared = f.Type, f.Type != nil
	}

	return b
}

// NewFixedBuilder builds records of exactly this schema, whose types are the four. Append
// rejects rows with other columns.
func NewFixedBuilder(schema *arrow.Schema) *Builder {
	b := NewBuilder(schema.Fields()...)
	b.fixed = true
	return b
}

func (b *Builder) add(name string) *column {
	c := &column{name: name}
	b.cols = append(b.cols, c)
	b.byName[name] = c
	return c
}

// Append adds a row by column name; missing columns are null. New columns are added in the
// order of their names. An error names the column and the value that does not fit; the row
// is then not part of the record.
func (b *Builder) Append(row map[string]any) error {
	names := slices.Sorted(maps.Keys(row))
	for _, name := range names {
		if b.byName[name] != nil {
			continue
		}
		if b.fixed {
			return fmt.Errorf("row %d has a column %q that the table does not have", b.rows, name)
		}
		b.add(name)
	}

	for _, name := range names {
		if err := b.byName[name].set(b.rows, row[name]); err != nil {
			for _, c := range b.cols {
				c.truncate(b.rows)
			}
			return err
		}
	}

	b.rows++
	return nil
}

// Record returns the appended rows and empties the builder. Columns and types stay.
func (b *Builder) Record() arrow.Record {
	names := make([]string, len(b.cols))
	arrays := make([]arrow.Array, len(b.cols))
	for i, c := range b.cols {
		names[i], arrays[i] = c.name, c.array(b.rows)
		c.values = nil
	}
	b.rows = 0
	return NewRecord(names, arrays)
}

func (c *column) array(rows int) arrow.Array {
	if c.typ == nil {
		return Nulls(String, rows)
	}

	switch c.typ.ID() {
	case arrow.INT64:
		return Ints(typed[int64](c.values, rows))
	case arrow.FLOAT64:
		return Floats(typed[float64](c.values, rows))
	case arrow.BOOL:
		return Flags(typed[bool](c.values, rows))
	}

	return Texts(typed[string](c.values, rows))
}

// typed returns the values of n rows, and which of them are not null: nil if all are.
func typed[T any](values []any, n int) (out []T, valid []bool) {
	out, valid = make([]T, n), make([]bool, n)
	for i, v := range values {
		out[i], valid[i] = v.(T)
	}
	if !slices.Contains(valid, false) {
		valid = nil
	}

	return out, valid
}

// truncate removes the values of a rejected row, and a type that came with it.
func (c *column) truncate(n int) {
	c.values = c.values[:min(n, len(c.values))]
	if !c.declared && !slices.ContainsFunc(c.values, func(v any) bool { return v != nil }) {
		c.typ = nil
	}
}

func (c *column) set(row int, v any) error {
	if v == nil {
		return nil
	}
	v, err := scalar(v)
	if err == nil {
		v, err = c.convert(v)
	}
	if err != nil {
		return fmt.Errorf("column %q, row %d: %w", c.name, row, err)
	}

	c.values = append(c.values, make([]any, row-len(c.values))...)
	c.values = append(c.values, v)
	return nil
}

// convert returns a scalar with the type of the column, which it may set or change.
func (c *column) convert(v any) (any, error) {
	if c.typ == nil {
		c.typ = typeOf(v)
	}
	if f, ok := v.(float64); ok && c.typ.ID() == arrow.INT64 {
		if c.declared && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			return int64(f), nil
		}
		if !c.declared {
			if err := c.toFloats(); err != nil {
				return nil, err
			}
		}
	}

	if n, ok := v.(int64); ok && c.typ.ID() == arrow.FLOAT64 {
		return exact(n)
	}

	if typeOf(v).ID() != c.typ.ID() {
		return nil, fmt.Errorf("%#v is %s, the column is %s", v, TypeName(typeOf(v)), TypeName(c.typ))
	}

	return v, nil
}

// toFloats turns a column of integers into one of floats.
func (c *column) toFloats() error {
	for i, v := range c.values {
		if n, ok := v.(int64); ok {
			f, err := exact(n)
			if err != nil {
				return err
			}
			c.values[i] = f
		}
	}

	c.typ = Float64
	return nil
}

// exact returns v as a float64, or an error if no float64 has that value.
func exact(v int64) (float64, error) {
	f := float64(v)
	if f >= math.MaxInt64 || int64(f) != v {
		return 0, fmt.Errorf("%d has no exact float64", v)
	}

	return f, nil
}

// scalar returns a value as int64, float64, string or bool.
func scalar(v any) (any, error) {
	switch v := v.(type) {
	case int64, float64, string, bool:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case uint:
		return scalar(uint64(v))
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for int64", v)
		}

		return int64(v), nil
	case float32:
		return float64(v), nil
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s is not a float64", v)
		}

		return f, nil
	}

	return nil, fmt.Errorf("%T is not a value of a table", v)
}

func typeOf(v any) arrow.DataType {
	switch v.(type) {
	case int64:
		return Int64
	case float64:
		return Float64
	case string:
		return String
	}

	return Bool
}
