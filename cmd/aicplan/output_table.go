package main

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/perf"
	"aicplan/sink/table"
)

func writeCSV(w io.Writer, t arrow.Record) error { return perf.WriteCSV(w, t, perf.Layout{}) }

// writeJSONLines prints one object a row, members in column order.
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
	for row := range int(t.NumRows()) {
		bw.WriteByte('{')
		for i := range int(t.NumCols()) {
			if i > 0 {
				bw.WriteByte(',')
			}
			bw.Write(names[i])
			bw.WriteByte(':')
			value := table.Value(t, i, row)
			if text, ok := value.(string); ok && t.ColumnName(i) == sweepColumn && json.Valid([]byte(text)) {
				value = json.RawMessage(text) // an array, and no text
			}
			b, err := json.Marshal(value)
			if err != nil {
				return err
			}
			bw.Write(b)
		}
		bw.WriteString("}\n")
	}
	return bw.Flush()
}
