package main

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// withoutFormulas prefixes text that a spreadsheet would evaluate with an apostrophe. Failure messages
// and kernel names come from untrusted sources.
func withoutFormulas(t arrow.Record) arrow.Record {
	for _, name := range table.Names(t) {
		col, err := table.Strings(t, name)
		if err != nil || !slices.ContainsFunc(col.Values, textutil.Formula) {
			continue
		}
		words, valid := make([]string, len(col.Values)), make([]bool, len(col.Values))
		for i, w := range col.Values {
			words[i], valid[i] = textutil.SpreadsheetCell(w), !col.Null(i)
		}
		t = table.WithColumn(t, name, table.Texts(words, valid))
	}

	return t
}

// writeJSONLines prints one object per row, with members in column order.
func writeJSONLines(w io.Writer, t arrow.Record) error {
	bw := bufio.NewWriterSize(w, 1<<16)
	names := make([][]byte, t.NumCols())
	for i, f := range t.Schema().Fields() {
		b, err := json.Marshal(f.Name)
		if err != nil {
			return err
		}
		names[i] = b
	}

	for row := range table.Len(t) {
		bw.WriteByte('{')
		for i := range int(t.NumCols()) {
			if i > 0 {
				bw.WriteByte(',')
			}

			bw.Write(names[i])
			bw.WriteByte(':')
			value := table.Value(t, i, row)
			if text, ok := value.(string); ok && t.ColumnName(i) == sweepColumn && json.Valid([]byte(text)) {
				value = json.RawMessage(text) // an array instead of text
			}

			b, err := json.Marshal(jsonNumber(value))
			if err != nil {
				return err
			}

			bw.Write(b)
		}

		bw.WriteString("}\n")
	}

	return bw.Flush()
}

// jsonNumber returns v, with NaN and infinities replaced by text because JSON has no such numbers.
func jsonNumber(v any) any {
	f, ok := v.(float64)
	switch {
	case !ok:
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}

	return v
}
