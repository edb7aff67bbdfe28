package collect

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// Kinds of cells, which a column collects as a set.
const (
	cellNull = 0
	cellInt  = 1 << iota
	cellFloat
	cellText
	cellFlag
	cellOdd     // no value of a table
	cellMissing // the try does not have the column
)

// tryCell is one value: a number, a word by its number, or true or false.
type tryCell struct {
	kind byte
	bits uint64
	odd  any
}

func numberCell(v []byte) tryCell {
	if isWhole(v) {
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return tryCell{kind: cellInt, bits: uint64(n)}
		}
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return tryCell{kind: cellOdd, odd: json.Number(string(v))}
	}
	return tryCell{kind: cellFloat, bits: math.Float64bits(f)}
}

// isWhole spares numbers with a point the error of ParseInt, which is slow.
func isWhole(v []byte) bool {
	for _, c := range v {
		if c != '-' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func flagCell(v bool) tryCell {
	c := tryCell{kind: cellFlag}
	if v {
		c.bits = 1
	}
	return c
}

// words gives every word a number.
type words struct {
	number map[string]uint32
	list   []string
	last   uint32
}

// text is a word as a cell; without a number where it is not kept.
func (w *words) text(v []byte, kept bool) tryCell {
	if !kept {
		return tryCell{kind: cellText}
	}
	if int(w.last) < len(w.list) && w.list[w.last] == string(v) {
		return tryCell{kind: cellText, bits: uint64(w.last)}
	}
	n, ok := w.number[string(v)]
	if !ok {
		n = uint32(len(w.list))
		w.list = append(w.list, string(v))
		w.number[w.list[n]] = n
	}
	w.last = n
	return tryCell{kind: cellText, bits: uint64(n)}
}

// cell is any value as a cell.
func (w *words) cell(v any, kept bool) tryCell {
	switch v := v.(type) {
	case nil:
		return tryCell{}
	case int64:
		return tryCell{kind: cellInt, bits: uint64(v)}
	case float64:
		return tryCell{kind: cellFloat, bits: math.Float64bits(v)}
	case bool:
		return flagCell(v)
	case string:
		return w.text([]byte(v), kept)
	case json.Number:
		return numberCell([]byte(v))
	}
	return tryCell{kind: cellOdd, odd: v}
}

// tryColumn is one column of the tries in the order of the journals, without
// pointers, since there may be millions.
type tryColumn struct {
	name    string
	kept    bool
	special bool // worked out for every try
	first   int32

	now  int32 // the last try with a value, which is cell
	cell tryCell

	seen    byte // the kinds of all values
	inexact bool // has an integer that no float64 equals
	kinds   []byte
	bits    []uint64
	odd     map[int32]any
}

func (c *tryColumn) add() {
	c.seen |= c.cell.kind
	if c.cell.kind == cellInt {
		n := int64(c.cell.bits)
		f := float64(n)
		c.inexact = c.inexact || f >= math.MaxInt64 || int64(f) != n
	}
	if !c.kept {
		return
	}
	for len(c.kinds) < int(c.now) {
		c.kinds, c.bits = append(c.kinds, cellMissing), append(c.bits, 0)
	}
	c.kinds, c.bits = append(c.kinds, c.cell.kind), append(c.bits, c.cell.bits)
	if c.cell.kind == cellOdd {
		if c.odd == nil {
			c.odd = map[int32]any{}
		}
		c.odd[c.now] = c.cell.odd
	}
}

// unfit says whether a table cannot have all values in one column.
func (c *tryColumn) unfit() bool {
	switch c.seen {
	case cellNull, cellInt, cellFloat, cellText, cellFlag:
		return false
	case cellInt | cellFloat:
		return c.inexact
	}
	return true
}

// at is the value of a try as it is held.
func (c *tryColumn) at(try int32) (kind byte, bits uint64) {
	if int(try) >= len(c.kinds) {
		return cellMissing, 0
	}
	return c.kinds[try], c.bits[try]
}

// value is what a try has; false where it does not have the column.
func (c *tryColumn) value(try int32, w *words) (any, bool) {
	kind, bits := c.at(try)
	switch kind {
	case cellInt:
		return int64(bits), true
	case cellFloat:
		return math.Float64frombits(bits), true
	case cellText:
		return w.list[bits], true
	case cellFlag:
		return bits != 0, true
	case cellOdd:
		return c.odd[try], true
	}
	return nil, kind != cellMissing
}

// dataType is the type of array.
func (c *tryColumn) dataType() arrow.DataType {
	switch c.seen {
	case cellInt:
		return table.Int64
	case cellFloat, cellInt | cellFloat:
		return table.Float64
	case cellFlag:
		return table.Bool
	}
	return table.String
}

// array is the column with its tries in another order.
func (c *tryColumn) array(order []int32, w *words) arrow.Array {
	valid, nulls := make([]bool, len(order)), false
	each := func(take func(i int, kind byte, bits uint64)) {
		for i, try := range order {
			kind, bits := c.at(try)
			if valid[i] = kind != cellNull && kind != cellMissing; !valid[i] {
				nulls = true
				continue
			}
			take(i, kind, bits)
		}
		if !nulls {
			valid = nil
		}
	}
	switch c.seen {
	case cellInt:
		out := make([]int64, len(order))
		each(func(i int, _ byte, bits uint64) { out[i] = int64(bits) })
		return table.Ints(out, valid)
	case cellFloat, cellInt | cellFloat:
		out := make([]float64, len(order))
		each(func(i int, kind byte, bits uint64) {
			if out[i] = math.Float64frombits(bits); kind == cellInt {
				out[i] = float64(int64(bits))
			}
		})
		return table.Floats(out, valid)
	case cellFlag:
		out := make([]bool, len(order))
		each(func(i int, _ byte, bits uint64) { out[i] = bits != 0 })
		return table.Flags(out, valid)
	case cellText:
		out := make([]string, len(order))
		each(func(i int, _ byte, bits uint64) { out[i] = w.list[bits] })
		return table.Texts(out, valid)
	}
	return table.Nulls(table.String, len(order))
}

func textArray(n int, of func(i int) string) arrow.Array {
	out := make([]string, n)
	for i := range out {
		out[i] = of(i)
	}
	return table.Texts(out, nil)
}
