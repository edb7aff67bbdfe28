package perf

import (
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// block is how many rows are fetched, column by column, before they are
// written: fetching in any row order then waits for memory once per block and
// column, not once per cell.
const block = 1024

// line appends the rows of a record. Text that is the same in every row,
// separators and columns of one value, is made once.
type line struct {
	cells []cell
	end   string
}

// cell is a column and the text in front of it. Exactly one of the slices is
// set; strings are codes of their ready-made fields, because perf files
// repeat them.
type cell struct {
	before string
	ints   []int64
	floats []float64
	flags  []bool
	codes  []int32
	fields []string
	null   func(row int) bool // nil when the column has none

	// The loaded block.
	someInts   []int64
	someFloats []float64
	someFlags  []bool
	someCodes  []int32
	someNulls  []bool
}

func newLine(rec arrow.Record) (*line, error) {
	l := &line{}
	fixed := ""
	for col := range int(rec.NumCols()) {
		if col > 0 {
			fixed += ","
		}
		c, err := newCell(rec, col)
		if err != nil {
			return nil, err
		}
		if len(c.fields) == 1 && c.null == nil {
			fixed += c.fields[0]
			continue
		}
		c.before, fixed = fixed, ""
		l.cells = append(l.cells, c)
	}
	l.end = fixed + "\n"
	return l, nil
}

func newCell(rec arrow.Record, col int) (cell, error) {
	name, arr := rec.ColumnName(col), rec.Column(col)
	var c cell
	var err error
	if arr.NullN() > 0 {
		c.null, c.someNulls = arr.IsNull, make([]bool, block)
	}
	switch id := arr.DataType().ID(); {
	case arrow.IsInteger(id):
		var v *table.Col[int64]
		if v, err = table.Int64s(rec, name); err == nil {
			c.ints, c.someInts = v.Values, make([]int64, block)
		}
	case arrow.IsFloating(id):
		var v *table.Col[float64]
		if v, err = table.Float64s(rec, name); err == nil {
			c.floats, c.someFloats = v.Values, make([]float64, block)
		}
	case id == arrow.BOOL:
		var v *table.Col[bool]
		if v, err = table.Bools(rec, name); err == nil {
			c.flags, c.someFlags = v.Values, make([]bool, block)
		}
	default:
		if c.codes, c.fields, err = table.Codes(rec, name); err == nil {
			for i, v := range c.fields {
				c.fields[i] = string(appendText(nil, v))
			}
			c.someCodes = make([]int32, block)
		}
	}
	return c, err
}

// load fetches at most block rows.
func (l *line) load(rows []int) {
	for i := range l.cells {
		c := &l.cells[i]
		switch {
		case c.codes != nil:
			fetch(c.someCodes, c.codes, rows)
		case c.ints != nil:
			fetch(c.someInts, c.ints, rows)
		case c.floats != nil:
			fetch(c.someFloats, c.floats, rows)
		default:
			fetch(c.someFlags, c.flags, rows)
		}
		if c.null != nil {
			for i, row := range rows {
				c.someNulls[i] = c.null(row)
			}
		}
	}
}

func fetch[T any](to, from []T, rows []int) {
	to = to[:len(rows)]
	for i, row := range rows {
		to[i] = from[row]
	}
}

// append adds row i of the block.
func (l *line) append(b []byte, i int) []byte {
	for n := range l.cells {
		c := &l.cells[n]
		b = append(b, c.before...)
		switch {
		case c.null != nil && c.someNulls[i]:
		case c.codes != nil:
			b = append(b, c.fields[c.someCodes[i]]...)
		case c.ints != nil:
			b = strconv.AppendInt(b, c.someInts[i], 10)
		case c.floats != nil:
			b = strconv.AppendFloat(b, c.someFloats[i], 'g', -1, 64)
		default:
			b = strconv.AppendBool(b, c.someFlags[i])
		}
	}
	return append(b, l.end...)
}

// appendText writes a field of text, quoted where RFC 4180 needs it.
func appendText(b []byte, s string) []byte {
	plain := s != ""
	for i := range len(s) {
		if c := s[i]; c == ',' || c == '"' || c == '\n' || c == '\r' {
			plain = false
			break
		}
	}
	if plain {
		return append(b, s...)
	}
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' {
			b = append(b, '"')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}
