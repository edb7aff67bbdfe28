package diff

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"aicplan/sink/base/textutil"
)

//go:embed report.txt
var reportText string

// section is a part of the report: the lines of all that are shown.
type section struct {
	Title string
	All   int
	Lines []string
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	return textutil.Fill(w, reportText, r, template.FuncMap{
		"title": (*Comparison).title, "unusable": (*Comparison).unusableText, "nothing": (*Comparison).nothing,
		"ratios": (*Comparison).ratioText, "pairs": func(r *Comparison) int { return len(r.ratios) },
		"worst":   (*Comparison).worstLines,
		"percent": func(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) },
		"section": func(title string, all int, lines []string) section { return section{title, all, lines} },
	})
}

// ratioText is a table of the quantiles of all rows and of each group that changed.
func (r *Comparison) ratioText() string {
	t := new(textutil.Table).Right("B / A", "rows", "min", "p5", "p25", "p50", "p75", "p95", "max")
	line := func(name string, rows int, q Quantiles) {
		cells := []any{textutil.VisibleLine(name), rows}
		for _, v := range []float64{q.Min, q.P5, q.P25, q.P50, q.P75, q.P95, q.Max} {
			cells = append(cells, fmt.Sprintf("%.3f", v))
		}
		t.Row(cells...)
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

	var b strings.Builder
	_ = t.Text(&b, "  ", ratioWidth) // strings.Builder returns no error
	if unchanged > 0 {
		fmt.Fprintf(&b, "  %s of %d unchanged\n", textutil.Counted(unchanged, "group"), len(r.Groups))
	}
	return b.String()
}

// ratioWidth is the width in columns above which the groups become a list, such as those of kernels with long names.
const ratioWidth = 80

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
