package aiperf

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// grid is a table drawn with AIPerf's lines. Cells are right-aligned except in the columns listed in left.
type grid struct {
	title  string
	header []string
	rows   [][]string
	left   []int
}

func (g *grid) render() string {
	width := make([]int, len(g.header))
	for _, row := range append([][]string{g.header}, g.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}

	total := 1
	for _, w := range width {
		total += w + 3
	}

	var b strings.Builder
	b.WriteString(strings.Repeat(" ", max(0, (total-utf8.RuneCountInString(g.title))/2)) + g.title + "\n")
	rule := func(left, line, cross, right string) {
		for i, w := range width {
			if i == 0 {
				b.WriteString(left)
			} else {
				b.WriteString(cross)
			}
			b.WriteString(strings.Repeat(line, w+2))
		}
		b.WriteString(right)
	}

	write := func(row []string, bar string) {
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if slices.Contains(g.left, i) {
				b.WriteString(bar + " " + cell + pad + " ")
			} else {
				b.WriteString(bar + " " + pad + cell + " ")
			}
		}
		b.WriteString(bar + "\n")
	}

	rule("\u250f", "\u2501", "\u2533", "\u2513\n")
	write(g.header, "\u2503")
	rule("\u2521", "\u2501", "\u2547", "\u2529\n")

	for _, row := range g.rows {
		write(row, "\u2502")
	}

	rule("\u2514", "\u2500", "\u2534", "\u2518")
	return b.String()
}
