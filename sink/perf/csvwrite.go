// Package perf reads and writes perf files: CSV (*_perf.txt) and Parquet
// (*_perf.parquet). The bytes that it writes depend on the rows alone.
package perf

import (
	"embed"
	"io"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"aicplan/sink/table"
)

// WriteCSV writes rec as CSV: a header and one line per row, each ending in "\n".
// Integers are plain, floats have the fewest digits that read back as the same float
// (Go's 'g'), booleans are true and false, null is empty. A field is quoted, as in RFC
// 4180, only if it contains a comma, a quote or a line break, or if it is the empty
// string, which differs from null.
func WriteCSV(w io.Writer, rec arrow.Record) error {
	const flushAt = 1 << 16
	buf := make([]byte, 0, flushAt+1<<12)

	cells := make([]func(b []byte, row int) []byte, rec.NumCols())
	for i, name := range table.Names(rec) {
		cells[i] = cellWriter(rec, i)
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendText(buf, name)
	}

	buf = append(buf, '\n')

	for row := range table.Len(rec) {
		for i, cell := range cells {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = cell(buf, row)
		}

		buf = append(buf, '\n')
		if len(buf) >= flushAt {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}

	_, err := w.Write(buf)
	return err
}

// cellWriter returns the function that appends a cell of column i.
func cellWriter(rec arrow.Record, i int) func(b []byte, row int) []byte {
	var add func(b []byte, row int) []byte
	arr := rec.Column(i)
	switch a := arr.(type) {
	case *array.Int64:
		add = func(b []byte, row int) []byte { return strconv.AppendInt(b, a.Value(row), 10) }
	case *array.Float64:
		add = func(b []byte, row int) []byte { return strconv.AppendFloat(b, a.Value(row), 'g', -1, 64) }
	case *array.Boolean:
		add = func(b []byte, row int) []byte { return strconv.AppendBool(b, a.Value(row)) }
	default:
		codes, fields, _ := table.Codes(rec, rec.ColumnName(i)) // of text
		for i, v := range fields {
			fields[i] = string(appendText(nil, v))
		}
		add = func(b []byte, row int) []byte { return append(b, fields[codes[row]]...) }
	}
	if arr.NullN() == 0 {
		return add
	}
	return func(b []byte, row int) []byte {
		if arr.IsNull(row) {
			return b
		}
		return add(b, row)
	}
}

// appendText writes a field of text and quotes it if RFC 4180 requires that.
func appendText(b []byte, s string) []byte {
	if s == "" || strings.ContainsAny(s, ",\"\r\n") {
		s = `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return append(b, s...)
}

// Source is the code of this package: checkpoints of what follows from it are
// stale when it changes.
//
//go:embed *.go
var Source embed.FS
