package rows

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/go-json-experiment/json/jsontext"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// Builder turns journal entries into the columns of a table. It keeps the values of a million rows without
// pointers, which the garbage collector would have to follow.
type Builder struct {
	schema  Schema
	n       int // rows
	columns map[string]*column
	texts   []byte // of all columns
	decoder jsontext.Decoder
	scratch []byte
}

// column has the values of one column. Its slices end at the last row with a value.
type column struct {
	tags []tag
	// bits is an int64, the bits of a float64, or the place of a text.
	bits []uint64
	last uint64 // place of the last text: most rows repeat it
}

// tag is the type of a value.
type tag byte

const (
	null tag = iota
	isInt
	isFloat
	isText
	isFalse
	isTrue
)

// NewBuilder returns a builder for rows of a schema.
func NewBuilder(s Schema) *Builder {
	return &Builder{schema: s, columns: map[string]*column{}}
}

// shared is a value that all rows of an entry have.
type shared struct {
	name string
	tag  tag
	bits uint64
}

// sharedColumns maps members of an entry to columns of the table.
var sharedColumns = map[string]string{"attempts": "attempts", "worker": "worker", "device_uuid": "device_uuid",
	"at": "started_at"}

// Add adds the rows of an entry and returns their number. After an error, the builder cannot be used any more.
func (b *Builder) Add(e checkpoint.Entry) (int, error) {
	b.decoder.Reset(bytes.NewBuffer(e.Payload))
	first := b.n
	var all []shared
	err := b.object(func(name []byte) error {
		switch {
		case string(name) == "rows":
			return b.rows()
		case string(name) == "failure":
			return errors.New("it has rows and a failure")
		case string(name) == "attachments":
			raw, err := b.decoder.ReadValue()
			all = append(all, shared{stage.AttachmentsColumn, isText, b.text(&column{}, raw)})
			return err
		}
		return b.share(&all, name)
	})

	if err == nil && b.n == first {
		err = errors.New("it has no rows")
	}
	if _, end := b.decoder.ReadToken(); err == nil && end != io.EOF {
		err = errors.New("something follows its end")
	}
	if err != nil {
		return 0, unreadable(e.ID, err)
	}

	for row := first; row < b.n; row++ {
		for _, v := range all {
			b.column(v.name).set(row, v.tag, v.bits)
		}
	}

	return b.n - first, nil
}

// share reads a value that all rows of an entry have. Values without a column are skipped.
func (b *Builder) share(all *[]shared, name []byte) error {
	to, ok := sharedColumns[string(name)]
	if !ok {
		return b.decoder.SkipValue()
	}
	t, bits, err := b.value(b.column(to))
	if to == "attempts" && t != isInt || to != "attempts" && t != isText {
		err = cmp.Or(err, fmt.Errorf("%s has a value of another type", name))
	}
	*all = append(*all, shared{to, t, bits})
	return err
}

// rows reads an array of rows.
func (b *Builder) rows() error {
	if err := b.expect('['); err != nil {
		return err
	}

	for b.decoder.PeekKind() == '{' {
		err := b.object(func(name []byte) error {
			c := b.columns[string(name)]
			if c == nil {
				c = b.column(string(name))
			}
			t, bits, err := b.value(c)
			c.set(b.n, t, bits)
			return err
		})
		if err != nil {
			return err
		}
		b.n++
	}

	return b.expect(']')
}

func (b *Builder) expect(kind jsontext.Kind) error {
	t, err := b.decoder.ReadToken()
	if err == nil && t.Kind() != kind {
		err = fmt.Errorf("%s is where %s should be", t.Kind(), kind)
	}
	return err
}

// object calls member for each member of the next value, which is an object. member reads the value.
func (b *Builder) object(member func(name []byte) error) error {
	if err := b.expect('{'); err != nil {
		return err
	}

	for b.decoder.PeekKind() == '"' {
		raw, err := b.decoder.ReadValue()
		if err != nil {
			return err
		}
		if b.scratch, err = jsontext.AppendUnquote(b.scratch[:0], raw); err != nil {
			return err
		}
		if err := member(b.scratch); err != nil {
			return err
		}
	}

	return b.expect('}')
}

// value reads a scalar for a column.
func (b *Builder) value(c *column) (tag, uint64, error) {
	raw, err := b.decoder.ReadValue()
	if err != nil {
		return null, 0, err
	}

	switch raw.Kind() {
	case 'n':
		return null, 0, nil
	case 't':
		return isTrue, 0, nil
	case 'f':
		return isFalse, 0, nil
	case '"':
		b.scratch, err = jsontext.AppendUnquote(b.scratch[:0], raw)
		return isText, b.text(c, b.scratch), err
	case '0':
		if i, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return isInt, uint64(i), nil
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		return isFloat, math.Float64bits(f), err
	}

	return null, 0, fmt.Errorf("%s is not a single value", raw)
}

// lengthBits is the number of bits of a text's length in its place.
const lengthBits = 26 // no entry of the journal is larger than 64 MiB

// text stores a text and returns its place.
func (b *Builder) text(c *column, s []byte) uint64 {
	if c.last != 0 && bytes.Equal(b.textAt(c.last), s) {
		return c.last
	}
	c.last = uint64(len(b.texts))<<lengthBits | uint64(len(s))
	b.texts = append(b.texts, s...)
	return c.last
}

func (b *Builder) textAt(place uint64) []byte {
	from := place >> lengthBits
	return b.texts[from : from+place&(1<<lengthBits-1)]
}

func (b *Builder) column(name string) *column {
	c := b.columns[name]
	if c == nil {
		c = &column{}
		b.columns[name] = c
	}
	return c
}

func (c *column) set(row int, t tag, bits uint64) {
	for len(c.tags) <= row {
		c.tags, c.bits = append(c.tags, null), append(c.bits, 0)
	}
	c.tags[row], c.bits[row] = t, bits
}

func (c *column) tag(row int) tag {
	if row >= len(c.tags) {
		return null
	}
	return c.tags[row]
}

func (c *column) float(row int) float64 {
	switch c.tag(row) {
	case isInt:
		return float64(int64(c.bits[row]))
	case isFloat:
		return math.Float64frombits(c.bits[row])
	}
	return 0
}

// Table adds the columns of the measured rows to cases, a table with the parameters of each row. Row i of cases
// belongs to the row that was added as number order[i]. environment has the framework, version and device of all rows. mixed are columns that are kept as text, because they have values of several types.
func (b *Builder) Table(cases arrow.Record, order []int, environment Label) (rec arrow.Record, mixed []string) {
	rec = cases
	add := func(name string, col arrow.Array) { rec = table.WithColumn(rec, name, col) }
	for _, c := range []struct{ name, otherwise string }{{"framework", environment.Framework},
		{"version", environment.Version}, {"device", environment.Device}} {
		add(c.name, b.words(c.name, order, c.otherwise))
	}

	for _, f := range b.schema {
		if table.Has(rec, f.Name) {
			continue // the grid has it as an axis, such as kernel_source
		}
		if col := b.array(f.Name, f.Kind, order); !f.Rare || col.NullN() < col.Len() {
			add(f.Name, col)
		}
		delete(b.columns, f.Name)
	}

	add("attempts", b.array("attempts", Integer, order))
	for _, name := range []string{"worker", "device_uuid", "started_at"} {
		add(name, b.words(name, order, ""))
	}
	if b.columns[stage.AttachmentsColumn] != nil {
		add(stage.AttachmentsColumn, b.array(stage.AttachmentsColumn, Word, order))
	}

	for _, name := range slices.Sorted(maps.Keys(b.columns)) {
		if table.Has(rec, name) {
			continue // the grid has it as a constant, or it is one of the columns above
		}
		kind, several, some := b.infer(name)
		if several {
			mixed = append(mixed, name)
		}
		if some {
			add(name, b.array(name, kind, order))
		}
	}

	return rec, mixed
}

// words returns a column of texts without nulls.
func (b *Builder) words(name string, order []int, otherwise string) arrow.Array {
	c := b.column(name)
	return table.TextsOf(len(order), func(i int, out []byte) []byte {
		if c.tag(order[i]) != isText {
			return append(out, otherwise...)
		}
		return append(out, b.textAt(c.bits[order[i]])...)
	})
}

// array returns a column.
func (b *Builder) array(name string, kind Kind, order []int) arrow.Array {
	c := b.column(name)
	var valid []bool
	if slices.ContainsFunc(order, func(row int) bool { return c.tag(row) == null }) {
		valid = make([]bool, len(order))
		for i, row := range order {
			valid[i] = c.tag(row) != null
		}
	}

	switch kind {
	case Integer:
		return table.Ints(gather(order, func(row int) int64 {
			if c.tag(row) == isInt {
				return int64(c.bits[row])
			}
			return int64(c.float(row))
		}), valid)

	case Flag:
		return table.Flags(gather(order, func(row int) bool { return c.tag(row) == isTrue }), valid)

	case Word:
		if valid == nil {
			return table.TextsOf(len(order), func(i int, out []byte) []byte { return b.appendText(out, c, order[i]) })
		}
		return table.Texts(gather(order, func(row int) string { return string(b.appendText(nil, c, row)) }), valid)
	}

	return table.Floats(gather(order, c.float), valid)
}

func gather[T any](order []int, value func(row int) T) []T {
	out := make([]T, len(order))
	for i, row := range order {
		out[i] = value(row)
	}
	return out
}

// appendText appends a value of any type as text.
func (b *Builder) appendText(out []byte, c *column, row int) []byte {
	switch t := c.tag(row); t {
	case isText:
		return append(out, b.textAt(c.bits[row])...)
	case isInt:
		return strconv.AppendInt(out, int64(c.bits[row]), 10)
	case isFloat:
		return strconv.AppendFloat(out, c.float(row), 'g', -1, 64)
	case isTrue, isFalse:
		return strconv.AppendBool(out, t == isTrue)
	}
	return out
}

// infer returns the type of a column that a worker has added. mixed is true if no type holds all values, so that
// they become text. some is false if the column has no value.
func (b *Builder) infer(name string) (kind Kind, mixed, some bool) {
	c := b.columns[name]
	var has [isTrue + 1]bool
	large := false // an integer that no float has
	for row, t := range c.tags {
		has[t] = true
		if i := int64(c.bits[row]); t == isInt {
			large = large || i > 1<<53 || i < -1<<53
		}
	}

	numbers, flags := has[isInt] || has[isFloat], has[isTrue] || has[isFalse]
	switch {
	case numbers && !has[isText] && !flags && !has[isFloat]:
		return Integer, false, true
	case numbers && !has[isText] && !flags && !large:
		return Number, false, true
	case flags && !has[isText] && !numbers:
		return Flag, false, true
	}

	return Word, numbers || flags, numbers || flags || has[isText]
}
