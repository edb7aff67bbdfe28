package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	prettytable "github.com/jedib0t/go-pretty/v6/table"

	"aicplan/sink/table"
)

// writeMarkdown prints a table in Markdown, for example for a pull request.
func writeMarkdown(w io.Writer, t arrow.Record) error {
	p := prettytable.NewWriter()
	var head prettytable.Row
	for _, n := range table.Names(t) {
		head = append(head, n)
	}

	p.AppendHeader(head)

	for i := range int(t.NumRows()) {
		var row prettytable.Row
		for c := range int(t.NumCols()) {
			v := table.Value(t, c, i)
			if v == nil {
				v = ""
			}
			row = append(row, v)
		}
		p.AppendRow(row)
	}

	_, err := fmt.Fprintln(w, strings.TrimRight(p.RenderMarkdown(), "\n"))
	return err
}
