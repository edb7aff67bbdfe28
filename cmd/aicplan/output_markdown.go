package main

import (
	"io"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
)

// writeMarkdown prints a table in Markdown, for example for a pull request.
func writeMarkdown(w io.Writer, t arrow.Record) error {
	names := table.Names(t)
	var p textutil.Table
	for _, n := range names {
		p.Left(n)
	}

	for i := range int(t.NumRows()) {
		row := make([]any, len(names))
		for c := range row {
			if row[c] = table.Value(t, c, i); row[c] == nil {
				row[c] = ""
			}
		}
		p.Row(row...)
	}

	return p.Markdown(w)
}
