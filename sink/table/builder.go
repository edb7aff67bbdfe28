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

// Builder makes a record from rows. Columns that were declared keep their
// type and place; others are found in the rows and get the type of their
// values: int64, float64, string or bool, where an int64 column becomes
// float64 once a float shows up. A column without any value becomes string.
//
// Values are nil, booleans, strings, integers and floats of every width, and
// json.Number (an integer when it is written as one).
type Builder struct {
	cols   []*column
	byName map[string]*column
	fixed  bool
	rows   int
}

type column struct {
	name     string
	typ      arrow.DataType // nil: no value yet
	declared bool
	n        int // rows filled, the rest is null
	ints     []int64
	floats   []float64
	strings  []string
	bools    []bool
	valid    []bool
}

// NewBuilder starts with the given columns; a field without a type is
// inferred. Further columns are added as rows bring them.
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

// NewFixedBuilder builds records of exactly this schema, whose types are the
// four: rows with other columns are refused.
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

// Append adds a row by column name; columns that it lacks are null. New
// columns are added in the order of their names. The error names the column
// and the value that does not fit; the row is then not part of the record.
func (b *Builder) Append(row map[string]any) error {
	var fresh []string
	for name := range row {
		if b.byName[name] != nil {
			continue
		}
		if b.fixed {
			return fmt.Errorf("row %d has a column %q that the table does not have", b.rows, name)
		}
		fresh = append(fresh, name)
	}
	slices.Sort(fresh)
	for _, name := range fresh {
		b.add(name)
	}
	for _, name := range slices.Sorted(maps.Keys(row)) {
		if err := b.byName[name].set(b.rows, row[name]); err != nil {
			b.undo()
			return err
		}
	}
	b.rows++
	return nil
}

// undo takes back the cells of a row that was refused.
func (b *Builder) undo() {
	for _, c := range b.cols {
		c.truncate(b.rows)
		if !c.declared && !slices.Contains(c.valid, true) {
			c.typ = nil // the type came with the refused row
		}
	}
}

// Record returns what was appended and empties the builder; the columns stay
// as they are.
func (b *Builder) Record() arrow.Record {
	names := make([]string, len(b.cols))
	arrays := make([]arrow.Array, len(b.cols))
	for i, c := range b.cols {
		names[i] = c.name
		arrays[i] = c.array(b.rows)
	}
	rec := NewRecord(names, arrays)
	b.rows = 0
	return rec
}

func (c *column) array(rows int) arrow.Array {
	c.fill(rows)
	valid := c.valid
	if !slices.Contains(valid, false) {
		valid = nil
	}
	var arr arrow.Array
	switch {
	case c.typ == nil:
		arr = Nulls(String, rows)
	case c.typ.ID() == arrow.INT64:
		arr = Ints(c.ints, valid)
	case c.typ.ID() == arrow.FLOAT64:
		arr = Floats(c.floats, valid)
	case c.typ.ID() == arrow.STRING:
		arr = Texts(c.strings, valid)
	case c.typ.ID() == arrow.BOOL:
		arr = Flags(c.bools, valid)
	}
	c.truncate(0)
	return arr
}

func (c *column) truncate(n int) {
	if c.n <= n {
		return
	}
	c.n = n
	c.valid = c.valid[:n]
	switch {
	case c.typ == nil:
	case c.typ.ID() == arrow.INT64:
		c.ints = c.ints[:n]
	case c.typ.ID() == arrow.FLOAT64:
		c.floats = c.floats[:n]
	case c.typ.ID() == arrow.STRING:
		c.strings = c.strings[:n]
	case c.typ.ID() == arrow.BOOL:
		c.bools = c.bools[:n]
	}
}

// fill makes the column n rows long with nulls.
func (c *column) fill(n int) {
	more := n - c.n
	if more <= 0 {
		return
	}
	c.n = n
	c.valid = append(c.valid, make([]bool, more)...)
	switch {
	case c.typ == nil:
	case c.typ.ID() == arrow.INT64:
		c.ints = append(c.ints, make([]int64, more)...)
	case c.typ.ID() == arrow.FLOAT64:
		c.floats = append(c.floats, make([]float64, more)...)
	case c.typ.ID() == arrow.STRING:
		c.strings = append(c.strings, make([]string, more)...)
	case c.typ.ID() == arrow.BOOL:
		c.bools = append(c.bools, make([]bool, more)...)
	}
}

func (c *column) set(row int, v any) error {
	if v == nil {
		return nil
	}
	v, err := scalar(v)
	if err != nil {
		return fmt.Errorf("column %q, row %d: %w", c.name, row, err)
	}
	if c.typ == nil {
		c.adopt(typeOf(v))
	}
	if _, ok := v.(float64); ok && !c.declared && c.typ.ID() == arrow.INT64 {
		if err := c.promote(); err != nil {
			return err
		}
	}
	c.fill(row)
	switch c.typ.ID() {
	case arrow.INT64:
		if n, ok := v.(int64); ok {
			c.ints = append(c.ints, n)
			return c.took()
		}
		if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			c.ints = append(c.ints, int64(f))
			return c.took()
		}
	case arrow.FLOAT64:
		switch v := v.(type) {
		case float64:
			c.floats = append(c.floats, v)
			return c.took()
		case int64:
			f, err := exact(v)
			if err != nil {
				return fmt.Errorf("column %q, row %d: %w", c.name, row, err)
			}
			c.floats = append(c.floats, f)
			return c.took()
		}
	case arrow.STRING:
		if s, ok := v.(string); ok {
			c.strings = append(c.strings, s)
			return c.took()
		}
	case arrow.BOOL:
		if b, ok := v.(bool); ok {
			c.bools = append(c.bools, b)
			return c.took()
		}
	}
	return fmt.Errorf("column %q, row %d: %#v is %s, the column is %s", c.name, row, v, TypeName(typeOf(v)), TypeName(c.typ))
}

func (c *column) took() error {
	c.valid = append(c.valid, true)
	c.n++
	return nil
}

// adopt gives a column of nulls its type.
func (c *column) adopt(t arrow.DataType) {
	n := c.n
	c.typ, c.n, c.valid = t, 0, c.valid[:0]
	c.fill(n)
}

// promote turns integers into floats.
func (c *column) promote() error {
	floats := make([]float64, len(c.ints), cap(c.ints))
	for i, v := range c.ints {
		f, err := exact(v)
		if err != nil {
			return fmt.Errorf("column %q, row %d: %w", c.name, i, err)
		}
		floats[i] = f
	}
	c.typ, c.floats, c.ints = Float64, floats, nil
	return nil
}

func exact(v int64) (float64, error) {
	f := float64(v)
	if f >= math.MaxInt64 || int64(f) != v {
		return 0, fmt.Errorf("%d has no exact float64", v)
	}
	return f, nil
}

// scalar brings a value to int64, float64, string or bool.
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
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for int64", v)
		}
		return int64(v), nil
	case uint:
		return scalar(uint64(v))
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
