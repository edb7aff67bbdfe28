package table

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Take returns the rows at the given indices, in that order. An index may repeat, and a
// negative index makes a row of nulls. An index beyond the end panics.
func Take(rec arrow.Record, rows []int) arrow.Record {
	if rows == nil {
		rows = []int{} // nil would mean all
	}
	names, cols := Names(rec), make([]arrow.Array, rec.NumCols())
	for i, name := range names {
		var err error
		if cols[i], err = pick(name, rec.Column(i), rows); err != nil {
			panic(err.Error())
		}
	}
	schema := arrow.NewSchema(fieldsOf(names, cols), nil)
	return array.NewRecord(schema, cols, int64(len(rows)))
}

// pick returns the values of a column at some rows; nil means all rows. The column has one of the four types, or it is
// an error.
func pick(name string, arr arrow.Array, rows []int) (arrow.Array, error) {
	switch a := arr.(type) {
	case *array.Int64:
		return Ints(gather(a, rows, a.Value)), nil
	case *array.Float64:
		return Floats(gather(a, rows, a.Value)), nil
	case *array.String:
		return Texts(gather(a, rows, a.Value)), nil
	case *array.Boolean:
		return Flags(gather(a, rows, a.Value)), nil
	}
	return nil, unknown(name, arr)
}

// gather returns the values at some rows, or at all of them if rows is nil, and which of them are not null: nil if all
// are.
func gather[T any](arr arrow.Array, rows []int, value func(int) T) (out []T, valid []bool) {
	n := len(rows)
	if rows == nil {
		n = arr.Len()
	}
	out, valid = make([]T, n), make([]bool, n)
	nulls := false
	for i := range n {
		r := i
		if rows != nil {
			r = rows[i]
		}
		if r < 0 || arr.IsNull(r) {
			nulls = true
			continue
		}
		out[i], valid[i] = value(r), true
	}

	if !nulls {
		valid = nil
	}
	return out, valid
}

// Filter returns the rows for which keep is true, in order.
func Filter(rec arrow.Record, keep func(row int) bool) arrow.Record {
	var rows []int
	for i := range Len(rec) {
		if keep(i) {
			rows = append(rows, i)
		}
	}

	if len(rows) == Len(rec) {
		return rec
	}

	return Take(rec, rows)
}

// Concat appends records. The result has the columns of all, in order of first appearance;
// the rows of a record without a column are null. An int64 and a float64 column become
// float64, and an all-null column takes the type of the others. Any other difference is an
// error that names the column.
func Concat(recs ...arrow.Record) (arrow.Record, error) {
	if len(recs) == 0 {
		return nil, errors.New("nothing to concatenate")
	}

	var names []string
	types, declared := map[string]arrow.DataType{}, map[string]arrow.DataType{}
	for _, rec := range recs {
		for i, f := range rec.Schema().Fields() {
			if declared[f.Name] == nil {
				names, declared[f.Name] = append(names, f.Name), f.Type
			}
			if rec.Column(i).NullN() == rec.Column(i).Len() {
				continue
			}

			t, ok := union(types[f.Name], f.Type)
			if !ok {
				return nil, fmt.Errorf("column %q is %s in one table and %s in another", f.Name,
					TypeName(types[f.Name]), TypeName(f.Type))
			}
			types[f.Name] = t
		}
	}

	cols := make([]arrow.Array, len(names))
	for i, name := range names {
		t := types[name]
		if t == nil { // no table has a value
			t = declared[name]
		}

		var err error
		if cols[i], err = stack(recs, name, t); err != nil {
			return nil, fmt.Errorf("column %q: %w", name, err)
		}
	}

	return NewRecord(names, cols), nil
}

func union(a, b arrow.DataType) (arrow.DataType, bool) {
	switch {
	case a == nil || a.ID() == b.ID():
		return b, true
	case a.ID() == arrow.INT64 && b.ID() == arrow.FLOAT64, a.ID() == arrow.FLOAT64 && b.ID() == arrow.INT64:
		return Float64, true
	}
	return nil, false
}

// stack puts the columns of one name below each other.
func stack(recs []arrow.Record, name string, t arrow.DataType) (arrow.Array, error) {
	parts := []arrow.Array{Nulls(t, 0)}
	for _, rec := range recs {
		switch at := Index(rec, name); {
		case at < 0 || rec.Column(at).NullN() == rec.Column(at).Len():
			parts = append(parts, Nulls(t, Len(rec)))
		case rec.Column(at).DataType().ID() != t.ID(): // integers among floats
			c, err := Float64s(rec, name)
			if err != nil {
				return nil, err
			}
			parts = append(parts, Floats(c.Values, c.Valid))
		default:
			parts = append(parts, rec.Column(at))
		}
	}

	return array.Concatenate(parts, mem)
}

// Select returns the named columns in the given order.
func Select(rec arrow.Record, names ...string) (arrow.Record, error) {
	fields := make([]arrow.Field, len(names))
	cols := make([]arrow.Array, len(names))
	for i, name := range names {
		c := Index(rec, name)
		if c < 0 {
			return nil, Missing(rec, name)
		}
		fields[i], cols[i] = rec.Schema().Field(c), rec.Column(c)
	}

	return array.NewRecord(arrow.NewSchema(fields, nil), cols, rec.NumRows()), nil
}

// Drop returns rec without the named columns; names it does not have are fine.
func Drop(rec arrow.Record, names ...string) arrow.Record {
	var fields []arrow.Field
	var cols []arrow.Array
	for i, f := range rec.Schema().Fields() {
		if !slices.Contains(names, f.Name) {
			fields = append(fields, f)
			cols = append(cols, rec.Column(i))
		}
	}

	return array.NewRecord(arrow.NewSchema(fields, nil), cols, rec.NumRows())
}

// WithColumn returns rec with the column replaced, or added at the end. A
// column of another length panics.
func WithColumn(rec arrow.Record, name string, arr arrow.Array) arrow.Record {
	if rec.NumCols() > 0 && int64(arr.Len()) != rec.NumRows() {
		panic(fmt.Sprintf("table: column %q has %d rows, the table %d", name, arr.Len(), rec.NumRows()))
	}
	fields := slices.Clone(rec.Schema().Fields())
	cols := slices.Clone(rec.Columns())
	if i := Index(rec, name); i >= 0 {
		fields[i], cols[i] = Field(name, arr.DataType()), arr
	} else {
		fields, cols = append(fields, Field(name, arr.DataType())), append(cols, arr)
	}

	return array.NewRecord(arrow.NewSchema(fields, nil), cols, int64(arr.Len()))
}

// Constant makes a column of n times v: a value of a Builder, or nil for a column of null strings.
func Constant(v any, n int) arrow.Array {
	v, err := scalar(v)
	if err != nil {
		panic("table: " + err.Error())
	}

	switch v := v.(type) {
	case int64:
		return Ints(slices.Repeat([]int64{v}, n), nil)
	case float64:
		return Floats(slices.Repeat([]float64{v}, n), nil)
	case string:
		return TextsOf(n, func(_ int, b []byte) []byte { return append(b, v...) })
	case bool:
		return Flags(slices.Repeat([]bool{v}, n), nil)
	}
	return Nulls(String, n)
}
