package lint

import (
	_ "embed"
	"io"
	"strings"
	"text/template"

	"aicplan/sink/base/textutil"
)

//go:embed report.txt
var reportText string

// WriteText writes the findings by rule, with at most rows offending rows of
// each.
func (r *Report) WriteText(w io.Writer, rows int) error {
	return textutil.Fill(w, reportText, r, template.FuncMap{
		"summary": func(name string) string {
			rule, _ := ruleOf(name)
			return rule.Summary
		},
		"first":    func(f Finding) []string { return f.Rows[:min(len(f.Rows), rows)] },
		"contains": strings.Contains,
	})
}

// Summary is the outcome as one line.
func (r *Report) Summary() string {
	if len(r.Findings) == 0 {
		return "nothing found"
	}
	s := textutil.Counted(len(r.Findings), "finding")
	if len(r.Exceeded) == 0 {
		return s + ", all within what is allowed"
	}
	s += "; more than allowed of " + strings.Join(r.Exceeded, ", ")
	if !r.Failed() {
		s += " (warnings, which fail nothing)"
	}
	return s
}
