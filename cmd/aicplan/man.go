package main

import (
	_ "embed"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"

	"aicplan/sink/base/textutil"
)

//go:embed man.txt
var manText string

// manPage writes a page of section 1 with all commands and flags, in roff.
func manPage(w io.Writer, top *kong.Node) error {
	return textutil.Fill(w, manText, struct {
		*kong.Node
		Version string
		Codes   []exitCode
	}{top, version, exitCodes}, template.FuncMap{
		"roff":    roff,
		"default": withDefault,
		"example": func(n *kong.Node) string { return examples()[strings.TrimPrefix(n.Path(), "aicplan ")] },
		"lines":   func(text string) []string { return slices.Collect(strings.Lines(text)) },
	})
}

// roff escapes text: backslashes, hyphens, and what would be a request at the start of a line.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(strings.TrimSpace(s))
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
