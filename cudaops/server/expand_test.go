package server

import (
	"strings"
	"testing"
)

// An argument {name...} is a list of arguments, which may be empty. Other texts keep their number.
func TestExpandAll(t *testing.T) {
	t.Parallel()
	values := map[string]string{"port": "80", "args": `["--a", "b c", "{port}"]`, "none": "[]", "null": "", "text": "--a"}
	for _, c := range []struct{ args, want, err string }{
		{"serve|--port|{port}|{args...}|--end", "serve|--port|80|--a|b c|{port}|--end", ""},
		{"serve|{none...}|{null...}|--end", "serve|--end", ""},
		{`serve|{"a": {port}}`, `serve|{"a": 80}`, ""},
		{"serve|{text...}", "", "the argument {text...} needs a JSON list of texts"},
		{"serve|--x={args...}", "", "placeholder {args...}"},
		{"serve|{arg...}", "", "placeholder {arg}"},
	} {
		got, err := ExpandAll(strings.Split(c.args, "|"), values)
		if text := strings.Join(got, "|"); text != c.want || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %s, %v; want %s%s", c.args, text, err, c.want, c.err)
		}
	}
	if names := strings.Join(Names("{port} {args...}", "{port}"), " "); names != "port args" {
		t.Errorf("names %s", names)
	}
	if !Placeholder("{port}") || Placeholder("{port}0") || Placeholder("") {
		t.Error("a placeholder is the whole text")
	}
}
