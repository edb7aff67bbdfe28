package perf

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"aicplan/sink/table"
)

// readColumns reads every column of a file into the normal form.
func readColumns(pf *file.Reader) (arrow.Record, error) {
	sc := pf.MetaData().Schema
	rows := pf.NumRows()
	if n := sc.NumColumns(); n > maxColumns {
		return nil, tooWide(n)
	}
	if err := cellsOf(pf); err != nil {
		return nil, err
	}
	if err := unitsOf(pf); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	names := make([]string, sc.NumColumns())
	cols := make([]arrow.Array, sc.NumColumns())
	for i := range cols {
		c := sc.Column(i)
		names[i] = c.Path()
		if c.MaxRepetitionLevel() > 0 || len(c.ColumnPath()) > 1 {
			return nil, fmt.Errorf("column %q contains lists or groups; a perf table has one value a cell", c.Path())
		}
		if seen[names[i]] {
			return nil, fmt.Errorf("two columns are called %q", names[i])
		}
		seen[names[i]] = true
		arr, err := readColumn(pf, i, rows)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", c.Path(), err)
		}
		cols[i] = arr
	}

	rec := table.NewRecord(names, cols)
	if len(cols) == 0 {
		rec = array.NewRecord(rec.Schema(), nil, rows)
	}

	return rec, nil
}

// maxColumns is how many columns a perf file may have. A table has a few dozen;
// looking at each costs the more the more there are.
const maxColumns = 4096

func tooWide(n int) error {
	return fmt.Errorf("it has %d columns, and %d are the most of a perf file", n, maxColumns)
}

// maxCells is the maximum number of cells of a file. A million equal cells take a few bytes
// in a file and megabytes in memory, so the size of a file is no limit.
const maxCells = 1 << 27

// cellsOf refuses files that would not fit into the memory.
func cellsOf(pf *file.Reader) error {
	columns := int64(pf.MetaData().Schema.NumColumns())
	most := maxCells / max(columns, 1)
	rows := int64(0)
	for _, g := range pf.MetaData().RowGroups {
		if rows += g.NumRows; g.NumRows > most || rows > most {
			break
		}
	}

	if rows = max(rows, pf.NumRows()); rows > most {
		return fmt.Errorf(
			"it has %d rows or more of %d columns, and %d cells are the most of a perf file; split it",
			rows,
			columns,
			maxCells,
		)
	}

	return nil
}

// unitsOf rejects durations. They are stored as integers, and only the Arrow schema in the
// metadata has their type and unit.
func unitsOf(pf *file.Reader) error {
	text := pf.MetaData().KeyValueMetadata().FindValue("ARROW:schema")
	if text == nil {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return nil // the file is read by its own types
	}
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil
	}
	defer r.Release()
	for _, f := range r.Schema().Fields() {
		if d, ok := f.Type.(*arrow.DurationType); ok {
			return fmt.Errorf(
				"column %q: the type is a duration in %s; write it as a float in the unit of the table, milliseconds for a latency",
				f.Name,
				d.Unit,
			)
		}
	}

	return nil
}

func readColumn(pf *file.Reader, i int, rows int64) (arrow.Array, error) {
	c := pf.MetaData().Schema.Column(i)
	logical := c.LogicalType()
	plain := logical == nil || logical.IsNone()
	integer, isInt := logical.(*schema.IntLogicalType)
	switch _, isNull := logical.(schema.NullLogicalType); {
	case isNull:
		return table.Nulls(table.String, int(rows)), nil
	case c.PhysicalType() == parquet.Types.Boolean:
		v, valid, err := readValues(pf, i, (*file.BooleanColumnChunkReader).ReadBatch, same)
		return table.Flags(v, valid), err
	case c.PhysicalType() == parquet.Types.Double:
		v, valid, err := readValues(pf, i, (*file.Float64ColumnChunkReader).ReadBatch, same)
		return table.Floats(v, valid), err
	case c.PhysicalType() == parquet.Types.Float:
		v, valid, err := readValues(pf, i, (*file.Float32ColumnChunkReader).ReadBatch,
			each(func(f float32) float64 { return float64(f) }))
		return table.Floats(v, valid), err
	case c.PhysicalType() == parquet.Types.Int32 && (plain || isInt):
		convert := func(n int32) int64 { return int64(n) }
		if isInt && !integer.IsSigned() {
			convert = func(n int32) int64 { return int64(uint32(n)) }
		}

		v, valid, err := readValues(pf, i, (*file.Int32ColumnChunkReader).ReadBatch, each(convert))
		return table.Ints(v, valid), err
	case c.PhysicalType() == parquet.Types.Int64 && (plain || isInt):
		v, valid, err := readValues(pf, i, (*file.Int64ColumnChunkReader).ReadBatch, same)
		if isInt && !integer.IsSigned() {
			for _, n := range v {
				if n < 0 {
					return nil, fmt.Errorf("%d is larger than any integer here, %d", uint64(n), int64(math.MaxInt64))
				}
			}
		}

		return table.Ints(v, valid), err
	case c.PhysicalType() == parquet.Types.ByteArray && logical != nil && logical.Equals(schema.StringLogicalType{}):
		words := map[string]string{} // of few values in many rows
		intern := func(b parquet.ByteArray) string {
			if s, ok := words[string(b)]; ok {
				return s
			}
			s := string(b) // the reader reuses its pages
			if len(words) < batch {
				words[s] = s
			}
			return s
		}
		v, valid, err := readValues(pf, i, (*file.ByteArrayColumnChunkReader).ReadBatch, each(intern))
		return table.Texts(v, valid), err
	}

	kind := c.PhysicalType().String()
	if !plain {
		kind, _, _ = strings.Cut(logical.String(), "(") // without its parameters
	}

	return nil, fmt.Errorf("the type is %s; only integers, floats, strings and booleans can be kept", kind)
}

// batch is how many values are read at once.
const batch = 1 << 14

// readValues reads a column of all row groups: one value for each row, the zero value if
// valid is false. valid is nil if no row is null.
func readValues[R, T, V any](
	pf *file.Reader,
	col int,
	read func(R, int64, []T, []int16, []int16) (int64, int, error),
	convert func([]T) []V,
) ([]V, []bool, error) {
	out, valid := make([]V, 0, room(pf)), make([]bool, 0, room(pf))
	buf := make([]T, batch)
	err := readChunks(pf, col, func(cr R, levels []int16) (int64, error) {
		n, k, err := read(cr, batch, buf, levels, nil)
		if err == nil {
			out, valid = spreadOut(out, valid, convert(buf[:k]), levels, int(n))
		}

		return n, err
	})
	return out, compactValid(valid), err
}

// room is how many rows a file is trusted to have before they are read.
func room(pf *file.Reader) int64 { return min(max(pf.NumRows(), 0), 1<<20) }

// readChunks calls read until every row group's column has been read.
func readChunks[R any](pf *file.Reader, col int, read func(cr R, levels []int16) (int64, error)) error {
	optional := pf.MetaData().Schema.Column(col).MaxDefinitionLevel() > 0
	for g := range pf.NumRowGroups() {
		reader, err := pf.RowGroup(g).Column(col)
		if err != nil {
			return err
		}
		cr, ok := any(reader).(R)
		if !ok {
			return fmt.Errorf("its chunk is of the type %s", reader.Type())
		}

		var levels []int16
		if optional {
			levels = make([]int16, batch)
		}
		left := pf.RowGroup(g).NumRows()
		for left > 0 {
			n, err := read(cr, levels)
			if err != nil {
				return err
			}
			if err := reader.Err(); err != nil {
				return err
			}
			if n <= 0 || n > left {
				return errors.New("it has not as many values as the file has rows")
			}
			left -= n
		}

		if err := reader.Err(); err != nil {
			return err
		}
		if reader.HasNext() {
			return errors.New("it has more values than the file has rows")
		}
	}

	return nil
}

// spreadOut appends n rows. Rows with a level above 0 take the next value of dense; without
// levels all do.
func spreadOut[T any](out []T, valid []bool, dense []T, levels []int16, n int) ([]T, []bool) {
	if levels == nil {
		return append(out, dense...), append(valid, slices.Repeat([]bool{true}, len(dense))...)
	}

	k := 0
	for _, level := range levels[:n] {
		var v T
		if level > 0 {
			v = dense[k]
			k++
		}
		out, valid = append(out, v), append(valid, level > 0)
	}

	return out, valid
}

func compactValid(valid []bool) []bool {
	if slices.Contains(valid, false) {
		return valid
	}
	return nil
}

func same[T any](in []T) []T { return in }

func each[A, B any](f func(A) B) func(in []A) []B {
	return func(in []A) []B {
		out := make([]B, len(in))
		for i, v := range in {
			out[i] = f(v)
		}
		return out
	}
}
