package diff

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"aicplan/sink/base/textutil"
)

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var sb strings.Builder
	fmt.Fprintf(&sb, "A: %s\nB: %s\n", r.A, r.B)
	for _, t := range r.Tables {
		t.text(&sb)
	}
	list := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		fmt.Fprintf(&sb, "\n%s\n", title)
		for _, it := range items {
			fmt.Fprintf(&sb, "  %s\n", it)
		}
	}

	list("Only in A:", r.OnlyA)
	list("Only in B:", r.OnlyB)
	list("Not compared:", r.Failed)
	_, err := io.WriteString(w, sb.String())
	return err
}

func (r *Comparison) text(sb *strings.Builder) {
	fmt.Fprintf(sb, "\n%s by %s, key %s\n", r.title(), r.Metric, strings.Join(r.Key, ", "))
	for _, s := range []struct {
		name string
		side Side
	}{{"A", r.A}, {"B", r.B}} {
		fmt.Fprintf(sb, "  %s  ", s.name)
		sb.WriteString(textutil.Some(s.side.Rows, "row"))
		if s.side.Duplicates > 0 {
			fmt.Fprintf(sb, ", %d of them repeat a key", s.side.Duplicates)
		}
		if who := strings.TrimSpace(
			strings.Join(s.side.Framework, "/") + " " + strings.Join(s.side.Version, "/"),
		); who != "" {
			fmt.Fprintf(sb, ", %s on %s", who, strings.Join(s.side.Device, "/"))
		}
		sb.WriteByte('\n')
	}

	fmt.Fprintf(sb, "  %d common, %d added, %d removed, %d changed", r.Common, r.Added, r.Removed, r.Changed)
	if r.Tolerance > 0 {
		fmt.Fprintf(sb, " by more than %.4g %%", 100*r.Tolerance)
	}
	if r.Unusable > 0 {
		fmt.Fprintf(sb, ", %d without a usable ratio", r.Unusable)
	}
	sb.WriteByte('\n')
	if r.Unusable > 0 {
		fmt.Fprintf(sb, "  without a ratio: %s\n", r.unusableText())
	}
	if r.Common == 0 {
		fmt.Fprintf(sb, "  NOTHING COMPARED: %s\n", r.nothing())
	}

	for _, d := range r.Drift {
		fmt.Fprintf(sb, "  columns: %s\n", d)
	}
	if r.Ratio == nil {
		return
	}
	sb.WriteByte('\n')
	lines := [][]string{{"B / A", "rows", "min", "p5", "p25", "p50", "p75", "p95", "max"}}
	line := func(name string, rows int, q Quantiles) {
		cells := []string{textutil.VisibleLine(name), strconv.Itoa(rows)}
		for _, v := range []float64{q.Min, q.P5, q.P25, q.P50, q.P75, q.P95, q.Max} {
			cells = append(cells, fmt.Sprintf("%.3f", v))
		}
		lines = append(lines, cells)
	}

	line("all", len(r.ratios), *r.Ratio)
	unchanged := 0
	for _, g := range r.Groups {
		if g.Ratio.Min == 1 && g.Ratio.Max == 1 {
			unchanged++
			continue
		}
		line(g.Column+"="+g.Value, g.Rows, g.Ratio)
	}

	alignRight(sb, lines)
	if unchanged > 0 {
		fmt.Fprintf(sb, "  %s of %d unchanged\n", textutil.Counted(unchanged, "group"), len(r.Groups))
	}
	section := func(title string, n int, rows []string) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(sb, "\n  %s", title)
		if n > len(rows) {
			fmt.Fprintf(sb, " (%d of %d)", len(rows), n)
		}
		sb.WriteByte('\n')
		for _, s := range rows {
			fmt.Fprintf(sb, "    %s\n", textutil.VisibleLine(s))
		}
	}

	section("largest differences", len(r.ratios), r.worstLines())
	section("only in A", r.Removed, r.LostRows)
	section("only in B", r.Added, r.AddedRows)
}

// longName is the longest name that leaves room for the figures in 80 columns.
const longName = 22

// alignRight writes cells in columns. A name that is too long, as those of
// kernels are, has a line of its own above its figures.
func alignRight(sb *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, c := range cells {
			if n := utf8.RuneCountInString(c); i > 0 || n <= longName {
				width[i] = max(width[i], n)
			}
		}
	}

	for _, cells := range lines {
		if utf8.RuneCountInString(cells[0]) > longName {
			fmt.Fprintf(sb, "  %s\n", cells[0])
			cells = append([]string{""}, cells[1:]...)
		}

		for i, c := range cells {
			fmt.Fprintf(sb, "  %*s", width[i], c)
		}
		sb.WriteByte('\n')
	}
}

func (r *Comparison) worstLines() []string {
	var out []string
	for _, w := range r.Worst {
		s := fmt.Sprintf("%s: %.6g -> %.6g (x %.3f)", w.Key, w.A, w.B, w.Ratio)
		if w.KernelA != w.KernelB {
			s += fmt.Sprintf(" %s -> %s", w.KernelA, w.KernelB)
		}
		out = append(out, s)
	}

	return out
}
