package tree

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
)

// WriteMarkdown writes a table of models by release with the covered degrees of tensor parallelism. Degrees
// that need sizes between rows are in parentheses. Missing ops follow the table.
func (m *Matrix) WriteMarkdown(w io.Writer) error {
	of := func(c Cell) string { return strings.TrimSpace(c.System + " " + c.Backend + " " + c.Version) }

	var columns []string
	rows := (&textutil.Table{}).Left("model")
	for _, c := range m.Cells {
		if !slices.Contains(columns, of(c)) {
			columns = append(columns, of(c))
			rows.Left(of(c))
		}
	}

	var below []string
	for _, model := range m.Models {
		line := []any{model}
		for _, col := range columns {
			var parts, order []string
			missing := map[string][]string{}
			for _, c := range m.Cells {
				tp := strconv.FormatInt(c.TP, 10)
				switch {
				case c.Model != model || of(c) != col:
				case c.Answer == Yes:
					parts = append(parts, tp)
				case c.Answer == Interpolated:
					parts = append(parts, "("+tp+")")
				case c.Answer == No:
					for _, miss := range c.Missing {
						if missing[miss] == nil {
							order = append(order, miss)
						}
						missing[miss] = append(missing[miss], tp)
					}
				}
			}

			text := "no"
			if len(parts) > 0 {
				text = "tp " + strings.Join(parts, ", ")
			}
			line = append(line, text)
			for _, miss := range order {
				below = append(below, textutil.Cell(fmt.Sprintf("- %s on %s: %s at tp %s", model, col, miss,
					strings.Join(missing[miss], ", "))))
			}
		}
		rows.Row(line...)
	}

	var sb strings.Builder
	if err := rows.Markdown(&sb); err != nil {
		return err
	}
	sb.WriteString(
		"\ntp lists the degrees of tensor parallelism that are covered; in parentheses those that need sizes between " +
			"measured rows.\n",
	)
	if len(below) > 0 {
		sb.WriteString("\n**Missing**\n\n" + strings.Join(below, "\n") + "\n")
	}
	_, err := io.WriteString(w, sb.String())
	return err
}
