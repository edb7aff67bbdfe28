package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	prettytable "github.com/jedib0t/go-pretty/v6/table"

	"aicplan/cudaops/comm"
	"aicplan/cudaops/worker"
	"aicplan/sink/table"
)

// writeMarkdown prints a table for a pull request: the peers of a node as
// matrices, everything else as one table.
func writeMarkdown(w io.Writer, t arrow.Record, op string) error {
	if op == "p2p" {
		var rows []worker.Row
		for i := range int(t.NumRows()) {
			row := worker.Row{}
			for name, v := range table.Row(t, i) {
				row[name] = plainNumber(v)
			}
			rows = append(rows, row)
		}
		_, err := io.WriteString(w, comm.Markdown(rows))
		return err
	}
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

// plainNumber is a value as rows have it that came from a worker.
func plainNumber(v any) any {
	switch v.(type) {
	case int64, float64:
		return json.Number(fmt.Sprint(v))
	}
	return v
}
