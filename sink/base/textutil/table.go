package textutil

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a table of texts that is printed on terminals and in Markdown.
type Table struct {
	heads []string
	right []bool
	rows  [][]string
}

// Left adds columns whose cells are aligned to the left.
func (t *Table) Left(heads ...string) *Table { return t.columns(false, heads) }

// Right adds columns whose cells are aligned to the right, such as numbers.
func (t *Table) Right(heads ...string) *Table { return t.columns(true, heads) }

func (t *Table) columns(right bool, heads []string) *Table {
	for _, h := range heads {
		t.heads, t.right = append(t.heads, h), append(t.right, right)
	}
	return t
}

// Row adds a row. Cells are formatted as by fmt.Sprint; missing cells are empty.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.heads))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Text writes the table with aligned columns, two spaces apart, each line behind indent. If it is wider
// than width, long texts continue on the next line, broken at spaces. If it is still too wide, each row
// becomes its first cell and a list of the others. A width of 0 means no limit.
func (t *Table) Text(w io.Writer, indent string, width int) error {
	widths, total := t.widths(), utf8.RuneCountInString(indent)-2
	for _, n := range widths {
		total += n + 2
	}

	if width > 0 && total > width && !t.shrink(widths, total-width) {
		return t.list(w, indent, width)
	}

	var b strings.Builder
	for _, row := range append([][]string{t.heads}, t.rows...) {
		t.line(&b, indent, widths, row)
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// widths returns the width of each column.
func (t *Table) widths() []int {
	out := make([]int, len(t.heads))
	for _, row := range append([][]string{t.heads}, t.rows...) {
		for i, c := range row {
			out[i] = max(out[i], utf8.RuneCountInString(c))
		}
	}
	return out
}

// shrink takes over columns from the widest texts. It reports whether no word is wider than its column.
func (t *Table) shrink(widths []int, over int) bool {
	least := make([]int, len(widths))
	for i := range widths {
		least[i] = widths[i]
		if t.right[i] {
			continue
		}

		least[i] = min(widths[i], 8)
		for _, row := range append([][]string{t.heads}, t.rows...) {
			for word := range strings.FieldsSeq(row[i]) {
				least[i] = max(least[i], utf8.RuneCountInString(word))
			}
		}
	}

	for ; over > 0; over-- {
		widest := -1
		for i := range widths {
			if widths[i] > least[i] && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}

	return true
}

// line writes a row, on several lines if a cell is wider than its column.
func (t *Table) line(b *strings.Builder, indent string, widths []int, row []string) {
	cells := make([][]string, len(row))
	lines := 1
	for i, c := range row {
		cells[i] = []string{c}
		if utf8.RuneCountInString(c) > widths[i] {
			cells[i] = Wrap(c, widths[i], len(c))
		}
		lines = max(lines, len(cells[i]))
	}

	for n := range lines {
		line := indent
		for i := range row {
			cell := ""
			if n < len(cells[i]) {
				cell = cells[i][n]
			}

			if i > 0 {
				line += "  "
			}
			if t.right[i] {
				line += fmt.Sprintf("%*s", widths[i], cell)
			} else {
				line += fmt.Sprintf("%-*s", widths[i], cell)
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// list writes each row as its first cell and, below it, the others with their heads.
func (t *Table) list(w io.Writer, indent string, width int) error {
	var b strings.Builder
	for _, row := range t.rows {
		b.WriteString(indent + row[0] + "\n")
		var rest []string
		for i, c := range row[1:] {
			if c != "" && c != "-" {
				rest = append(rest, strings.TrimSpace(t.heads[i+1]+" "+c))
			}
		}

		text := strings.Join(rest, ", ")
		for _, line := range Wrap(text, max(width-utf8.RuneCountInString(indent)-4, 1), len(text)) {
			b.WriteString(indent + "    " + line + "\n")
		}
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown writes the table in Markdown. Cells are escaped unless they are code spans.
func (t *Table) Markdown(w io.Writer) error {
	var b strings.Builder
	line := func(cells []string) {
		for _, c := range cells {
			if !strings.HasPrefix(c, "`") || !strings.HasSuffix(c, "`") {
				c = Cell(c)
			}
			b.WriteString("| " + c + " ")
		}
		b.WriteString("|\n")
	}

	line(t.heads)
	for _, right := range t.right {
		b.WriteString(map[bool]string{false: "|---", true: "|---:"}[right])
	}
	b.WriteString("|\n")

	for _, row := range t.rows {
		line(row)
	}

	_, err := io.WriteString(w, b.String())
	return err
}
