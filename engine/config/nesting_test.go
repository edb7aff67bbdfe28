package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/engine/stage"
)

// TestNestedTooDeep checks that text which would overflow the parser's stack is rejected with its
// range.
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
		"sum":          "1" + strings.Repeat(" + 1", n),
		"indices":      "b" + strings.Repeat("[0]", n),
		"directives":   `"` + strings.Repeat("%{ if true }", n) + "x" + strings.Repeat("%{ endif }", n) + `"`,
	} {
		path := filepath.Join(t.TempDir(), "plan.hcl")
		if err := os.WriteFile(path, []byte("locals {\n  a = "+expr+"\n}\n"), 0o644); err != nil {
			t.Fatal(err)
		}

		_, diags := Load(Options{Path: path, Kinds: map[string]stage.Kind{}, Systems: testSystem})
		if !diags.HasErrors() || diags[0].Summary != "Nested too deep" || diags[0].Subject.Start.Line < 2 {
			t.Errorf("%s: %v", name, diags)
		}
	}

	path := filepath.Join(t.TempDir(), "plan.hcl")
	text := "locals {\n  a = " + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "\n}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	cfg, diags := Load(Options{Path: path, Kinds: map[string]stage.Kind{}, Systems: testSystem,
		Vars: []string{"x=" + strings.Repeat("[", n)}})
	if len(diags) != 1 || diags[0].Summary != "Value for an undeclared variable" {
		t.Errorf("100 levels: %v", diags)
	}
	if _, diags := cfg.Eval(strings.Repeat("(", n)); !diags.HasErrors() || diags[0].Summary != "Nested too deep" {
		t.Errorf("an expression: %v", diags)
	}
}

// TestManyExpressions checks that expressions side by side do not count as nested.
func TestManyExpressions(t *testing.T) {
	t.Parallel()
	const n = 11_000
	for name, text := range map[string]string{
		"lines":    "locals {\n" + strings.Repeat("  a = true ? 1 + 1 : 2\n", n) + "}\n",
		"list":     "a = [" + strings.Repeat("true ? 1 + 1 : 2, ", n) + "]\n",
		"heredocs": strings.Repeat("a = <<A\n%{ if true }x%{ endif }\nA\n", n),
	} {
		if diags := TooDeep([]byte(text), "a.hcl"); diags.HasErrors() {
			t.Errorf("%s: %v", name, diags)
		}
	}
}
