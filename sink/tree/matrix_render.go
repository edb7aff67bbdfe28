package tree

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
)

// WriteJSON writes the matrix as one JSON object.
func (m *Matrix) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(m)
}

// WriteMarkdown writes a table of models by release with the covered degrees of tensor parallelism. Degrees
// that need sizes between rows are in parentheses. Missing ops follow the table.
func (m *Matrix) WriteMarkdown(w io.Writer) error {
	type column struct{ system, backend, version string }
	var columns []column
	cells := map[string]map[column][]Cell{}
	for _, c := range m.Cells {
		col := column{c.System, c.Backend, c.Version}
		if !slices.Contains(columns, col) {
			columns = append(columns, col)
		}
		if cells[c.Model] == nil {
			cells[c.Model] = map[column][]Cell{}
		}
		cells[c.Model][col] = append(cells[c.Model][col], c)
	}

	var sb strings.Builder
	sb.WriteString("| model |")
	for _, c := range columns {
		fmt.Fprintf(&sb, " %s |", textutil.Cell(strings.TrimSpace(c.system+" "+c.backend+" "+c.version)))
	}
	sb.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	var below []string
	for _, model := range m.Models {
		fmt.Fprintf(&sb, "| %s |", textutil.Cell(model))
		for _, col := range columns {
			var parts []string
			missing := map[string][]string{}
			var order []string
			for _, c := range cells[model][col] {
				switch c.Answer {
				case Yes:
					parts = append(parts, strconv.FormatInt(c.TP, 10))
				case Interpolated:
					parts = append(parts, fmt.Sprintf("(%d)", c.TP))
				case No:
					for _, miss := range c.Missing {
						if missing[miss] == nil {
							order = append(order, miss)
						}
						missing[miss] = append(missing[miss], strconv.FormatInt(c.TP, 10))
					}
				}
			}
			text := "no"
			if len(parts) > 0 {
				text = "tp " + strings.Join(parts, ", ")
			}
			fmt.Fprintf(&sb, " %s |", text)
			for _, miss := range order {
				below = append(below, textutil.Cell(fmt.Sprintf("- %s on %s: %s at tp %s", model, strings.TrimSpace(col.system+" "+col.backend+" "+col.version), miss, strings.Join(missing[miss], ", "))))
			}
		}

		sb.WriteString("\n")
	}

	sb.WriteString("\ntp lists the degrees of tensor parallelism that are covered; in parentheses those that need sizes between measured rows.\n")
	if len(below) > 0 {
		sb.WriteString("\n**Missing**\n\n" + strings.Join(below, "\n") + "\n")
	}
	_, err := io.WriteString(w, sb.String())
	return err
}
