package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aicplan/engine/stage"
)

// TestNestedTooDeep: text that would end the program in the parser, where
// nothing can be recovered, is refused with its place.
func TestNestedTooDeep(t *testing.T) {
	const n = 100_000
	for name, expr := range map[string]string{
		"parentheses":  strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"lists":        strings.Repeat("[", n) + "1" + strings.Repeat("]", n),
		"open":         strings.Repeat("{a=", n),
		"signs":        strings.Repeat("!", n) + "true",
		"conditionals": strings.Repeat("true ? 1 : ", n) + "1",
		"templates":    strings.Repeat(`"${`, n) + "1" + strings.Repeat(`}"`, n),
	} {
		path := filepath.Join(t.TempDir(), "plan.hcl")
		if err := os.WriteFile(path, []byte("locals {\n  a = "+expr+"\n}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, diags := Load(Options{Path: path, Kinds: map[string]stage.Kind{}, Version: "0.1.0", Systems: testSystem})
		if !diags.HasErrors() || diags[0].Summary != "Nested too deep" || diags[0].Subject.Start.Line != 2 {
			t.Errorf("%s: %v", name, diags)
		}
	}
	path := filepath.Join(t.TempDir(), "plan.hcl")
	text := "locals {\n  a = " + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, diags := Load(Options{Path: path, Kinds: map[string]stage.Kind{}, Version: "0.1.0", Systems: testSystem,
		Vars: []string{"x=" + strings.Repeat("[", n)}})
	if len(diags) != 1 || diags[0].Summary != "Value for an undeclared variable" {
		t.Errorf("100 levels: %v", diags)
	}
	if _, diags := cfg.Eval(strings.Repeat("(", n)); !diags.HasErrors() || diags[0].Summary != "Nested too deep" {
		t.Errorf("an expression: %v", diags)
	}
}

// TestShallow: what is taken for shallow without tokens is shallow by them.
func TestShallow(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{
		"(", ")", "[", "]", "{", "}", "${", "%{", "$", "$$", "%", "\"", "\\", "\\\"", "!", "-", "?", ":", "\n", " ", "#", "//", "/", "/*", "*/", "<<", "<<-A\n", "A\n", "a", "a-b", "'", "`", "~}", "${~", "é", "\r\n", "\x00",
		"{}", "[]", "\"a\"", "\"${a}\"", "a = 1\n",
	})
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(strings.Join(rapid.SliceOfN(piece, 0, 24).Draw(t, "text"), ""))
		if limit := rapid.IntRange(0, 4).Draw(t, "limit"); shallow(src, limit) {
			passed++
			if diags := tooDeep(src, "a.hcl", limit); diags.HasErrors() {
				t.Fatalf("%q at %d: %v", src, limit, diags)
			}
		}
	})
	if passed == 0 {
		t.Error("nothing was shallow")
	}
}
