package table

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// Builder makes a record from rows. Declared columns keep their type and place. Other columns are added in the
// order in which rows name them and get the type of their first value. An int64 column of the second kind becomes
// float64 if a float follows, and a column without any value becomes string.
//
// Values are nil, booleans, strings, integers and floats of every width, and json.Number.
type Builder struct {
	fields   []arrow.Field
	declared int
	rows     []map[string]any
}

// NewBuilder starts with the given columns. The type of a field without one is inferred.
func NewBuilder(fields ...arrow.Field) *Builder {
	b := &Builder{fields: slices.Clone(fields), declared: len(fields)}
	for i, f := range fields {
		b.fields[i] = Field(f.Name, f.Type)
	}
	return b
}

// Append adds a row by column name; missing columns are null. An error names the column and the value that does
// not fit; the row is then not part of the record.
func (b *Builder) Append(row map[string]any) error {
	fields, clean := slices.Clone(b.fields), map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		v, err := scalar(row[name])
		if err != nil {
			return fmt.Errorf("column %q, row %d: %w", name, len(b.rows), err)
		}

		at := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == name })
		if at < 0 {
			at, fields = len(fields), append(fields, Field(name, nil))
		}

		switch have := fields[at].Type; {
		case v == nil || have != nil && typeOf(v).ID() == have.ID():
		case have == nil:
			fields[at].Type = typeOf(v)
		case have.ID() == arrow.INT64 && typeOf(v).ID() == arrow.FLOAT64 && at >= b.declared:
			fields[at].Type = Float64
		case have.ID() == arrow.FLOAT64 && typeOf(v).ID() == arrow.INT64:
		default:
			return fmt.Errorf("column %q, row %d: %#v is %s, the column is %s", name, len(b.rows), v,
				TypeName(typeOf(v)), TypeName(have))
		}

		clean[name] = v
	}

	b.fields, b.rows = fields, append(b.rows, clean)
	return nil
}

// Record returns the appended rows and removes them from the builder. Columns and types stay.
func (b *Builder) Record() arrow.Record {
	names, cols := make([]string, len(b.fields)), make([]arrow.Array, len(b.fields))
	for i, f := range b.fields {
		names[i], cols[i] = f.Name, b.column(f)
	}

	b.rows = nil
	return NewRecord(names, cols)
}

func (b *Builder) column(f arrow.Field) arrow.Array {
	if f.Type == nil {
		return Nulls(String, len(b.rows))
	}

	switch f.Type.ID() {
	case arrow.INT64:
		return Ints(values[int64](b.rows, f.Name))
	case arrow.FLOAT64:
		return Floats(values[float64](b.rows, f.Name))
	case arrow.BOOL:
		return Flags(values[bool](b.rows, f.Name))
	}
	return Texts(values[string](b.rows, f.Name))
}

// values returns the values of a column. Integers in a column of floats are converted.
func values[T any](rows []map[string]any, name string) (out []T, valid []bool) {
	out, valid = make([]T, len(rows)), make([]bool, len(rows))
	for i, row := range rows {
		if v := row[name]; v != nil {
			out[i], valid[i] = reflect.ValueOf(v).Convert(reflect.TypeFor[T]()).Interface().(T), true
		}
	}
	return out, valid
}

// scalar returns a value as int64, float64, string, bool or nil.
func scalar(v any) (any, error) {
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			return i, nil
		}
		f, err := n.Float64()
		if err != nil {
			return nil, fmt.Errorf("%s is not a float64", n)
		}
		return f, nil
	}

	switch r := reflect.ValueOf(v); {
	case v == nil:
		return nil, nil
	case r.CanInt():
		return r.Int(), nil
	case r.CanUint():
		if r.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for int64", v)
		}
		return int64(r.Uint()), nil
	case r.CanFloat():
		return r.Float(), nil
	case r.Kind() == reflect.String:
		return r.String(), nil
	case r.Kind() == reflect.Bool:
		return r.Bool(), nil
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
