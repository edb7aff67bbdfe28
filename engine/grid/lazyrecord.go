package grid

import (
	"sync"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// lazyRecord is a record that builds each column on first access. Most commands need only the size
// and the names of a case table, and an estimate needs a few columns. The garbage collector owns
// the memory, so Retain and Release do nothing.
type lazyRecord struct {
	schema  *arrow.Schema
	rows    int64
	columns []func() arrow.Array // each builds its column once
}

var _ arrow.Record = (*lazyRecord)(nil)

// lazyColumn is a column that is built on first access.
type lazyColumn struct {
	field arrow.Field
	array func() arrow.Array // returns an array of the field's type
}

func newLazyRecord(rows int, columns []lazyColumn) *lazyRecord {
	r := &lazyRecord{rows: int64(rows)}
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = c.field
		r.columns = append(r.columns, sync.OnceValue(c.array))
	}

	r.schema = arrow.NewSchema(fields, nil)
	return r
}

// whole returns the same data as a regular Arrow record.
func (r *lazyRecord) whole() arrow.Record { return array.NewRecord(r.schema, r.Columns(), r.rows) }

// Retain implements arrow.Record.
func (r *lazyRecord) Retain() {}

// Release implements arrow.Record.
func (r *lazyRecord) Release() {}

// Schema implements arrow.Record.
func (r *lazyRecord) Schema() *arrow.Schema { return r.schema }

// NumRows implements arrow.Record.
func (r *lazyRecord) NumRows() int64 { return r.rows }

// NumCols implements arrow.Record.
func (r *lazyRecord) NumCols() int64 { return int64(len(r.columns)) }

// Columns implements arrow.Record.
func (r *lazyRecord) Columns() []arrow.Array {
	all := make([]arrow.Array, len(r.columns))
	for i := range all {
		all[i] = r.Column(i)
	}
	return all
}

// Column implements arrow.Record.
func (r *lazyRecord) Column(i int) arrow.Array { return r.columns[i]() }

// ColumnName implements arrow.Record.
func (r *lazyRecord) ColumnName(i int) string { return r.schema.Field(i).Name }

// SetColumn implements arrow.Record.
func (r *lazyRecord) SetColumn(i int, col arrow.Array) (arrow.Record, error) {
	return r.whole().SetColumn(i, col)
}

// NewSlice implements arrow.Record.
func (r *lazyRecord) NewSlice(i, j int64) arrow.Record { return r.whole().NewSlice(i, j) }

// MarshalJSON implements json.Marshaler.
func (r *lazyRecord) MarshalJSON() ([]byte, error) { return r.whole().MarshalJSON() }
