package main

import (
	_ "embed"
	"strings"
	"text/template"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages/gate/results"
)

//go:embed views.txt
var viewsText string

// view returns the text of one of the templates in views.txt.
func view(name string, data any) string {
	var b strings.Builder
	err := textutil.Fill(&b, viewsText+`{{template "`+name+`" .}}`, data, template.FuncMap{
		"files":  files,
		"less":   func(a, b int) int { return a - b },
		"quoted": quoted,
		"status": statusWord,
		"tally": func(checks []stage.CheckResult) results.Counts {
			return results.Count([]results.Group{{Checks: checks}})
		},
	})
	if err != nil {
		panic("views.txt: " + err.Error()) // cannot happen: the templates are constant
	}
	return strings.TrimLeft(b.String(), "\n")
}
