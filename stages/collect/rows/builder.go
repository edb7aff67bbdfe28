package rows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// Builder turns journal entries into the columns of a table.
type Builder struct {
	n       int                // rows
	columns map[string]*column // of the rows, by name
	scratch []byte

	// Columns with the members of entries.
	attempts                        *array.Int64Builder
	worker, uuid, started, attached *array.StringBuilder
}

// NewBuilder returns a builder for rows of a schema.
func NewBuilder(s Schema) *Builder {
	text := func() *array.StringBuilder { return array.NewStringBuilder(memory.DefaultAllocator) }
	b := &Builder{columns: map[string]*column{}, attempts: array.NewInt64Builder(memory.DefaultAllocator),
		worker: text(), uuid: text(), started: text(), attached: text()}
	for _, f := range s {
		b.columns[f.Name] = newColumn(f.Kind)
	}
	return b
}

// column collects the values of one column. Rows without a value are null.
type column struct {
	array.Builder
	kind Kind
}

func newColumn(k Kind) *column {
	of := table.String
	switch k {
	case Number:
		of = table.Float64
	case Integer:
		of = table.Int64
	case Flag:
		of = table.Bool
	}
	return &column{array.NewBuilder(memory.DefaultAllocator, of), k}
}

// set appends the value of a row, which is after the last one. scratch is used for texts.
func (c *column) set(row int, v jsontext.Value, scratch *[]byte) (err error) {
	switch v.Kind() {
	case 'n':
		return nil
	case '{', '[':
		return fmt.Errorf("%s is not a single value", v)
	}
	if c.Len() > row {
		return errors.New("it has two values of a column")
	}

	c.AppendNulls(row - c.Len())
	switch b := c.Builder.(type) {
	case *array.Float64Builder:
		f, err := strconv.ParseFloat(string(v), 64)
		b.Append(f)
		return err
	case *array.Int64Builder:
		n, err := integer(v)
		b.Append(n)
		return err
	case *array.BooleanBuilder:
		if v.Kind() != 't' && v.Kind() != 'f' {
			return fmt.Errorf("%s is neither true nor false", v)
		}
		b.Append(v.Kind() == 't')
	case *array.StringBuilder:
		if c.kind == Word {
			*scratch, err = appendText((*scratch)[:0], v)
			v = *scratch
		}
		b.BinaryBuilder.Append(v)
	}
	return err
}

// integer returns a number without its fraction.
func integer(v jsontext.Value) (int64, error) {
	if !strings.ContainsAny(string(v), ".eE") {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n, nil
		}
	}
	f, err := strconv.ParseFloat(string(v), 64)
	return int64(f), err
}

// appendText appends a value as text.
func appendText(out []byte, v jsontext.Value) ([]byte, error) {
	switch v.Kind() {
	case '"':
		return jsontext.AppendUnquote(out, v)
	case '0':
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return strconv.AppendInt(out, n, 10), nil
		}
		f, err := strconv.ParseFloat(string(v), 64)
		return strconv.AppendFloat(out, f, 'g', -1, 64), err
	}
	return append(out, v...), nil
}

// measured is an Entry whose rows go to a builder.
type measured struct {
	Rows        *Builder       `json:"rows"`
	Failure     jsontext.Value `json:"failure"`
	Attempts    int64          `json:"attempts"`
	Worker      string         `json:"worker"`
	DeviceUUID  string         `json:"device_uuid"`
	At          string         `json:"at"`
	Attachments jsontext.Value `json:"attachments"`
}

// Add adds the rows of an entry and returns their number. After an error, the builder cannot be used any more.
func (b *Builder) Add(e checkpoint.Entry) (int, error) {
	first := b.n
	m := measured{Rows: b}
	// The columns detect names that occur twice, which is faster.
	err := json.Unmarshal(e.Payload, &m, jsontext.AllowDuplicateNames(true))
	switch {
	case err != nil:
	case b.n == first || m.Rows == nil:
		err = errors.New("it has no rows")
	case m.Failure != nil:
		err = errors.New("it has rows and a failure")
	}
	if err != nil {
		return 0, unreadable(e.ID, err)
	}

	for range b.n - first {
		b.attempts.Append(m.Attempts)
		b.worker.Append(m.Worker)
		b.uuid.Append(m.DeviceUUID)
		b.started.Append(m.At)
		if m.Attachments == nil {
			b.attached.AppendNull()
		} else {
			b.attached.BinaryBuilder.Append(m.Attachments)
		}
	}
	return b.n - first, nil
}

// UnmarshalJSONFrom adds an array of rows.
func (b *Builder) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if err := expect(d, '['); err != nil {
		return err
	}

	for d.PeekKind() == '{' {
		if err := b.row(d); err != nil {
			return err
		}
		b.n++
	}
	return expect(d, ']')
}

// row adds a row.
func (b *Builder) row(d *jsontext.Decoder) error {
	if err := expect(d, '{'); err != nil {
		return err
	}

	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		if b.scratch, err = jsontext.AppendUnquote(b.scratch[:0], name); err != nil {
			return err
		}
		c := b.columns[string(b.scratch)]
		if c == nil {
			c = newColumn(untyped)
			b.columns[string(b.scratch)] = c
		}

		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := c.set(b.n, v, &b.scratch); err != nil {
			return err
		}
	}
	return expect(d, '}')
}

func expect(d *jsontext.Decoder, kind jsontext.Kind) error {
	t, err := d.ReadToken()
	if err == nil && t.Kind() != kind {
		err = fmt.Errorf("%s is where %s should be", t.Kind(), kind)
	}
	return err
}

// entryColumns are the columns with the members of entries, in table order.
var entryColumns = []string{"attempts", "worker", "device_uuid", "started_at", stage.AttachmentsColumn}

// Record returns the rows in the order in which they were added, with columns of workers as JSON. The builder cannot be
// used any more.
func (b *Builder) Record() arrow.Record {
	names := slices.Clone(entryColumns)
	cols := []arrow.Array{b.attempts.NewArray(), b.worker.NewArray(), b.uuid.NewArray(), b.started.NewArray(),
		b.attached.NewArray()}
	for name, c := range b.columns {
		if !slices.Contains(entryColumns, name) {
			names, cols = append(names, name), append(cols, c.array(b.n))
		}
	}
	return table.NewRecord(names, cols)
}

// Table adds the columns of measured rows, which are records of Builders, to cases, a table with the parameters of each
// row. Row i of cases belongs to row order[i] of them. environment has the framework, version and device of all rows.
// mixed are columns that are kept as text, because they have values of several types.
func Table(cases arrow.Record, s Schema, measured arrow.Record, order []int,
	environment Label) (rec arrow.Record, mixed []string) {
	rec = cases
	column := func(name string) arrow.Array { return measured.Column(table.Index(measured, name)) }
	add := func(name string, col arrow.Array) {
		col = table.Take(table.NewRecord([]string{name}, []arrow.Array{col}), order).Column(0)
		rec = table.WithColumn(rec, name, col)
	}

	rec = table.WithColumn(rec, "framework", table.Constant(environment.Framework, len(order)))
	rec = table.WithColumn(rec, "version", table.Constant(environment.Version, len(order)))
	rec = table.WithColumn(rec, "device", table.Constant(environment.Device, len(order)))
	for _, f := range s {
		// The grid may have it as an axis, such as kernel_source.
		if !table.Has(rec, f.Name) && !(f.Rare && empty(column(f.Name))) {
			add(f.Name, column(f.Name))
		}
	}
	for _, name := range entryColumns {
		if name != stage.AttachmentsColumn || !empty(column(name)) {
			add(name, column(name))
		}
	}

	for _, name := range slices.Sorted(slices.Values(table.Names(measured))) {
		// The grid may have it as a constant.
		if table.Has(rec, name) || slices.Contains(Stages, name) || empty(column(name)) {
			continue
		}
		values := column(name).(*array.String)
		kind, several := typeOf(values)
		if several {
			mixed = append(mixed, name)
		}
		add(name, typed(values, kind))
	}

	return rec, mixed
}

// array returns the column with n rows and empties it.
func (c *column) array(n int) arrow.Array {
	c.AppendNulls(n - c.Len())
	return c.NewArray()
}

func empty(col arrow.Array) bool { return col.NullN() == col.Len() }

// typeOf returns the type of a column that a worker has added. mixed is true if no type holds all values, so that they
// become text.
func typeOf(values *array.String) (kind Kind, mixed bool) {
	var words, flags, numbers, fractions, large bool
	for i := range values.Len() {
		if values.IsNull(i) {
			continue
		}
		switch v := values.Value(i); v[0] {
		case '"':
			words = true
		case 't', 'f':
			flags = true
		default:
			numbers = true
			n, err := int64(0), strconv.ErrSyntax
			if !strings.ContainsAny(v, ".eE") {
				n, err = strconv.ParseInt(v, 10, 64)
			}
			fractions = fractions || err != nil
			large = large || n > 1<<53 || n < -1<<53 // no float has it
		}
	}

	switch {
	case numbers && !words && !flags && !fractions:
		return Integer, false
	case numbers && !words && !flags && !large:
		return Number, false
	case flags && !words && !numbers:
		return Flag, false
	}
	return Word, numbers || flags
}

// typed returns a column of JSON values with another type, which holds all of them.
func typed(values *array.String, kind Kind) arrow.Array {
	c := newColumn(kind)
	var scratch []byte
	for i := range values.Len() {
		if !values.IsNull(i) {
			_ = c.set(i, jsontext.Value(values.Value(i)), &scratch)
		}
	}
	return c.array(values.Len())
}
