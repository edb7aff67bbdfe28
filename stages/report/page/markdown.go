package page

import (
	_ "embed"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/template"

	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
	"aicplan/stages/report/model"
)

// markdownLimit is the largest number of bytes of a Markdown report. The body of a pull request takes 65,536.
const markdownLimit = 60000

// How many lines of a list are shown before the rest is counted.
const (
	maxTables = 80
	maxLines  = 25
)

//go:embed assets/report.md
var markdown string

// WriteMarkdown writes the report as the body of a pull request: GitHub's Markdown without pictures. If it
// would be longer than the platforms allow, lists are cut short, each with the number of what is left out.
func WriteMarkdown(w io.Writer, r *model.Report) error {
	var b strings.Builder
	for lines := maxLines; lines > 0 && (b.Len() == 0 || b.Len() > markdownLimit); lines /= 2 {
		b.Reset()
		if err := textutil.Fill(&b, markdown, body{Report: r, Lines: lines}, functions, markup); err != nil {
			return fmt.Errorf("report page: %w", err)
		}
	}

	text := b.String()
	if len(text) > markdownLimit {
		cut := strings.LastIndexByte(text[:markdownLimit-80], '\n')
		text = text[:cut] + "\n\nThe rest is in the HTML report.\n"
	}

	_, err := io.WriteString(w, text)
	return err
}

// body is the data of the template: a report, and the number of lines of its lists.
type body struct {
	*model.Report
	Lines int
}

// Long is the number of lines of lists that readers look up single entries in.
func (b body) Long() int { return max(b.Lines, min(maxTables, 3*b.Lines)) }

// cutCells is a table with the number of its lines.
type cutCells struct {
	results.Table
	Lines int
}

// Cut limits the lines of a table.
func (b body) Cut(c results.Table) cutCells { return cutCells{c, b.Lines} }

// markup are the functions of the template beside those of pages. Text from elsewhere is escaped by cell, code or
// inline.
var markup = template.FuncMap{
	"ratio": func(a, b int) float64 { return float64(a) / float64(b) },
	"few":   func(s []string) string { return model.List(s, 20) },

	// first is the beginning of a list, and more counts the others.
	"first": func(n int, list any) any {
		v := reflect.ValueOf(list)
		return v.Slice(0, min(n, v.Len())).Interface()
	},
	"more": func(n int, list any) string {
		if left := reflect.ValueOf(list).Len() - n; left > 0 {
			return fmt.Sprintf("\n...and %s more; the HTML report has them all.\n", textutil.Count(left))
		}
		return ""
	},

	"summary": func(g results.Group) string {
		text, bad := model.CheckSummary(g)
		if text = textutil.Cell(text); bad {
			return "**" + text + "**"
		}
		return text
	},
	"short": func(digest string) string {
		if algo, hex, ok := strings.Cut(digest, ":"); ok && len(hex) >= 16 {
			return algo + ":" + hex[:16]
		}
		return digest
	},
}
