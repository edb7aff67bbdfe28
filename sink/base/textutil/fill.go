package textutil

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"text/template"
)

// Functions are those of this package that templates of text use. What comes from elsewhere passes through cell, code
// or inline in Markdown, through word in shell scripts, and through line on terminals.
var Functions = template.FuncMap{
	"cell": Cell, "code": Code, "inline": Inline, "word": ShellWord, "line": VisibleLine, "clip": Clip,
	"some": Some[int], "counted": Counted[int], "join": strings.Join,
	"count": func(n any) string { return Count(reflect.ValueOf(n).Int()) },
	"pair":  func(a, b string) string { return strings.TrimSpace(a + " " + b) },
}

// Fill writes a template of text/template, filled with data. More are further functions of the template.
func Fill(w io.Writer, text string, data any, more ...template.FuncMap) error {
	t := template.New("text").Funcs(Functions)
	for _, m := range more {
		t.Funcs(m)
	}
	if _, err := t.Parse(text); err != nil {
		return err
	}

	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}
