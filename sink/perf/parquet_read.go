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

	"aicplan/sink/base/parquetrows"
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
		return fmt.Errorf("it has %d rows or more of %d columns, and %d cells are the most of a perf file; split it",
			rows, columns, maxCells)
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
	unsigned := isInt && !integer.IsSigned()
	switch _, isNull := logical.(schema.NullLogicalType); {
	case isNull:
		return table.Nulls(table.String, int(rows)), nil
	case c.PhysicalType() == parquet.Types.Boolean:
		v, valid, err := values(pf, i, func(v bool) bool { return v })
		return table.Flags(v, valid), err
	case c.PhysicalType() == parquet.Types.Double:
		v, valid, err := values(pf, i, func(v float64) float64 { return v })
		return table.Floats(v, valid), err
	case c.PhysicalType() == parquet.Types.Float:
		v, valid, err := values(pf, i, func(v float32) float64 { return float64(v) })
		return table.Floats(v, valid), err
	case c.PhysicalType() == parquet.Types.Int32 && (plain || isInt):
		v, valid, err := values(pf, i, func(v int32) int64 {
			if unsigned {
				return int64(uint32(v))
			}
			return int64(v)
		})
		return table.Ints(v, valid), err
	case c.PhysicalType() == parquet.Types.Int64 && (plain || isInt):
		v, valid, err := values(pf, i, func(v int64) int64 { return v })
		if at := slices.IndexFunc(v, func(n int64) bool { return n < 0 }); unsigned && at >= 0 {
			return nil, fmt.Errorf("%d is larger than any integer here, %d", uint64(v[at]), int64(math.MaxInt64))
		}
		return table.Ints(v, valid), err
	case c.PhysicalType() == parquet.Types.ByteArray && logical != nil && logical.Equals(schema.StringLogicalType{}):
		words := map[string]string{} // of few values in many rows
		v, valid, err := values(pf, i, func(b parquet.ByteArray) string {
			s, ok := words[string(b)]
			if !ok {
				if s = string(b); len(words) < fewWords {
					words[s] = s
				}
			}
			return s
		})
		return table.Texts(v, valid), err
	}

	kind := c.PhysicalType().String()
	if !plain {
		kind, _, _ = strings.Cut(logical.String(), "(") // without its parameters
	}

	return nil, fmt.Errorf("the type is %s; only integers, floats, strings and booleans can be kept", kind)
}

// fewWords is how many texts of a column are kept to be shared by its rows.
const fewWords = 1 << 14

// values reads a column of all row groups: one value for each row, the zero value if valid is false. valid is nil if
// no row is null.
func values[T, V any](pf *file.Reader, col int, convert func(T) V) (out []V, valid []bool, err error) {
	room := min(max(pf.NumRows(), 0), 1<<20) // how many rows a file is trusted to have
	out, valid = make([]V, 0, room), make([]bool, 0, room)
	rows := int64(0)
	for g := range pf.NumRowGroups() {
		chunk, err := pf.RowGroup(g).Column(col)
		if err == nil {
			err = parquetrows.Each(chunk, func(v *T, _, _ int16) {
				var to V
				if v != nil {
					to = convert(*v)
				}
				out, valid = append(out, to), append(valid, v != nil)
			})
		}
		if err != nil {
			return nil, nil, err
		}

		if rows += pf.RowGroup(g).NumRows(); int64(len(out)) != rows {
			return nil, nil, errors.New("it has not as many values as the file has rows")
		}
	}

	if !slices.Contains(valid, false) {
		valid = nil
	}
	return out, valid, nil
}
