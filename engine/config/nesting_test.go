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
	const n = 20_000
	for name, expr := range map[string]string{
		"parentheses":  strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"lists":        strings.Repeat("[", n) + "1" + strings.Repeat("]", n),
		"open":         strings.Repeat("{a=", n),
		"signs":        strings.Repeat("!", n) + "true",
		"conditionals": strings.Repeat("true ? 1 : ", n) + "1",
		"templates":    strings.Repeat(`"${`, n) + "1" + strings.Repeat(`}"`, n),
		"lines":        "(\n" + strings.Repeat("true ? 1 :\n", n) + "1)",
		"objects":      strings.Repeat("true ? {\n} : ", n) + "{}",
		"for":          "{ for k in [1] :\n k =>\n" + strings.Repeat("true ? 1 :\n", n) + "1 }",
	} {
		path := filepath.Join(t.TempDir(), "plan.hcl")
		if err := os.WriteFile(path, []byte("locals {\n  a = "+expr+"\n}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, diags := Load(Options{Path: path, Kinds: map[string]stage.Kind{}, Version: "0.1.0", Systems: testSystem})
		if !diags.HasErrors() || diags[0].Summary != "Nested too deep" || diags[0].Subject.Start.Line < 2 {
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

// TestExpressionTooLong: operators in a row hold each other, as brackets do.
func TestExpressionTooLong(t *testing.T) {
	t.Parallel()
	const n = 11_000
	for name, expr := range map[string]string{
		"sum":        "1" + strings.Repeat(" + 1", n),
		"lines":      "(true" + strings.Repeat("\n && true", n) + ")",
		"indices":    "b" + strings.Repeat("[0]", n),
		"splats":     "b" + strings.Repeat("[*]", n),
		"directives": `"` + strings.Repeat("%{ if true }", n) + "x" + strings.Repeat("%{ endif }", n) + `"`,
	} {
		if diags := TooDeep([]byte("locals {\n  a = "+expr+"\n}\n"), "a.hcl"); !diags.HasErrors() || diags[0].Summary != "Expression too long" {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

// TestManyExpressions: what stands side by side is not nested, also where a comment
// ends the line.
func TestManyExpressions(t *testing.T) {
	t.Parallel()
	const n = 11_000
	for name, text := range map[string]string{
		"lines":    "locals {\n" + strings.Repeat("  a = true ? 1 + 1 : 2\n", n) + "}\n",
		"comments": "locals {\n" + strings.Repeat("  a = true ? 1 + 1 : 2 # one\n", n) + "}\n",
		"list":     "a = [" + strings.Repeat("true ? 1 + 1 : 2, ", n) + "]\n",
		"heredocs": strings.Repeat("a = <<A\n%{ if true }x%{ endif }\nA\n", n),
	} {
		if diags := TooDeep([]byte(text), "a.hcl"); diags.HasErrors() {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

// TestShallow: what is taken for shallow without tokens is shallow by them.
func TestShallow(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{
		"(", ")", "[", "]", "{", "}", "${", "%{", "$", "$$", "%", "\"", "\\", "\\\"", "!", "-", "?", ":", "\n", " ", "#", "//", "/", "/*", "*/", "<<", "<<-A\n", "A\n", "a", "a-b", "'", "`", "~}", "${~", "é", "\r\n", "\x00", ",", "+", "==", "for", "for ", "for=",
		"{}", "[]", "\"a\"", "\"${a}\"", "a = 1\n",
	})
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		src := []byte(strings.Join(rapid.SliceOfN(piece, 0, 24).Draw(t, "text"), ""))
		if most := (limits{rapid.IntRange(0, 4).Draw(t, "nesting"), rapid.IntRange(0, 6).Draw(t, "links")}); shallow(src, most) {
			passed++
			if diags := tooDeep(src, "a.hcl", most); diags.HasErrors() {
				t.Fatalf("%q at %v: %v", src, most, diags)
			}
		}
	})
	if passed == 0 {
		t.Error("nothing was shallow")
	}
}
