package table

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Take returns the rows at the given indices, in that order. An index may repeat, and a
// negative index makes a row of nulls. The columns must have the four types (Normal). An
// index beyond the end panics.
func Take(rec arrow.Record, rows []int) arrow.Record {
	cols := make([]arrow.Array, rec.NumCols())
	for i, f := range rec.Schema().Fields() {
		cols[i] = takeArray(f.Name, rec.Column(i), rows)
	}

	return array.NewRecord(bare(rec.Schema()), cols, int64(len(rows)))
}

// bare is a schema without metadata, with nullable fields.
func bare(s *arrow.Schema) *arrow.Schema {
	fields := slices.Clone(s.Fields())
	for i := range fields {
		fields[i] = Field(fields[i].Name, fields[i].Type)
	}

	return arrow.NewSchema(fields, nil)
}

func takeArray(name string, arr arrow.Array, rows []int) arrow.Array {
	switch a := arr.(type) {
	case *array.Int64:
		return Ints(gather(a, a.Int64Values(), rows))
	case *array.Float64:
		return Floats(gather(a, a.Float64Values(), rows))
	case *array.String:
		c := newCol(name, a, a.Value)
		return Texts(gather(a, c.Values, rows))
	case *array.Boolean:
		c := newCol(name, a, a.Value)
		return Flags(gather(a, c.Values, rows))
	}

	panic(fmt.Sprintf("table: column %q has the type %s; use Normal first", name, arr.DataType()))
}

func gather[T any](arr arrow.Array, values []T, rows []int) ([]T, []bool) {
	out := make([]T, len(rows))
	var valid []bool
	nulls := arr.NullN() > 0
	for i, r := range rows {
		if r >= 0 && (!nulls || arr.IsValid(r)) {
			out[i] = values[r]
			if valid != nil {
				valid[i] = true
			}
			continue
		}

		if valid == nil {
			valid = make([]bool, len(rows))
			for k := range i {
				valid[k] = true
			}
		}
	}

	return out, valid
}

// Filter returns the rows for which keep is true, in order.
func Filter(rec arrow.Record, keep func(row int) bool) arrow.Record {
	var rows []int
	for i := range int(rec.NumRows()) {
		if keep(i) {
			rows = append(rows, i)
		}
	}

	if len(rows) == int(rec.NumRows()) {
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
	type place struct {
		name string
		typ  arrow.DataType
	}

	var places []*place
	byName := map[string]*place{}
	total := int64(0)
	for _, rec := range recs {
		total += rec.NumRows()
		for i, f := range rec.Schema().Fields() {
			p := byName[f.Name]
			if p == nil {
				p = &place{name: f.Name}
				byName[f.Name] = p
				places = append(places, p)
			}
			if rec.Column(i).NullN() == rec.Column(i).Len() {
				continue
			}
			t, ok := normalType(f.Type)
			if !ok {
				return nil, fmt.Errorf("column %q has the type %s; only integers, floats, strings and booleans can be kept", f.Name, f.Type)
			}
			u, ok := union(p.typ, t)
			if !ok {
				return nil, fmt.Errorf("column %q is %s in one table and %s in another", f.Name, TypeName(p.typ), TypeName(t))
			}
			p.typ = u
		}
	}

	names := make([]string, len(places))
	cols := make([]arrow.Array, len(places))
	for i, p := range places {
		if p.typ == nil { // no table has a value: keep the first declared type
			p.typ = declared(recs, p.name)
		}

		arr, err := stack(recs, p.name, p.typ)
		if err != nil {
			return nil, err
		}
		names[i], cols[i] = p.name, arr
	}

	if len(cols) == 0 {
		return array.NewRecord(arrow.NewSchema(nil, nil), nil, total), nil
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

func declared(recs []arrow.Record, name string) arrow.DataType {
	for _, rec := range recs {
		if i := Index(rec, name); i >= 0 && rec.Column(i).DataType().ID() != arrow.NULL {
			if t, ok := normalType(rec.Column(i).DataType()); ok {
				return t
			}
		}
	}

	return String
}

func stack(recs []arrow.Record, name string, t arrow.DataType) (arrow.Array, error) {
	parts := make([]arrow.Array, 0, len(recs))
	for _, rec := range recs {
		if rec.NumRows() == 0 {
			continue
		}
		i := Index(rec, name)
		if i < 0 || rec.Column(i).NullN() == rec.Column(i).Len() {
			parts = append(parts, Nulls(t, int(rec.NumRows())))
			continue
		}
		part, err := convert(name, rec.Column(i), t)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}

	switch len(parts) {
	case 0:
		return Nulls(t, 0), nil
	case 1:
		return parts[0], nil
	}

	arr, err := array.Concatenate(parts, mem)
	if err != nil {
		return nil, fmt.Errorf("column %q: %w", name, err)
	}

	return arr, nil
}

// Select returns the named columns in the given order.
func Select(rec arrow.Record, names ...string) (arrow.Record, error) {
	fields := make([]arrow.Field, len(names))
	cols := make([]arrow.Array, len(names))
	for i, name := range names {
		c := Index(rec, name)
		if c < 0 {
			return nil, &MissingError{Name: name, Have: Names(rec)}
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

// Constant makes a column of n times v: int64, float64, string, bool or nil
// (a column of null strings).
func Constant(v any, n int) arrow.Array {
	v, err := scalarOrNil(v)
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

func scalarOrNil(v any) (any, error) {
	if v == nil {
		return nil, nil
	}

	return scalar(v)
}
