package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/config"
)

// placed checks that diagnostics have a range, a summary and a detail.
func placed(t *testing.T, text string, diags hcl.Diagnostics) {
	t.Helper()
	for _, d := range diags {
		if d.Subject == nil || d.Subject.Filename == "" || d.Summary == "" || d.Detail == "" {
			t.Errorf("a diagnostic that says too little: %v, of %q", d, text)
		}
		if strings.Contains(d.Detail, "panic") || strings.Contains(d.Detail, "goroutine ") {
			t.Errorf("a panic as a diagnostic: %s, of %q", d.Detail, text)
		}
	}
}

// FuzzExpression evaluates arbitrary expressions. Each must have a value, or an error with a range.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		"1 + 2 * 3", `"a${var.n}b"`, "[for x in var.l : x * 2 if x > 1]", "{ for k, v in var.o : k => v... }",
		"var.l[*]", "var.o.a", `try(var.nope, 1)`,
		"powers(2, 0, 4)", `jsondecode("{\"a\":[1]}")`, `regex("(a)(b)?", "ab")`, `format("%05.2f", 1.5)`,
		"range(1, 10, 3)",
		"<<EOT\n%{ for x in var.l }${x}%{ endfor }\nEOT", "null", "1 / 0", "pow(2, 1e3)",
		`formatdate("YYYY", "2020-01-01T00:00:00Z")`,
		`toset([1, "a", true])`, `substr("äöü", 1, -1)`, `element([], 0)`, `1e400`, `- - 1`, `((((1))))`, `var.l...`,
		`cidrhost("10.0.0.0/8", 1)`, `templatefile("x", {})`,
	} {
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "plan.hcl")
	plan := `
variable "n" { default = 3 }
variable "l" { default = [1, 2, 3] }
variable "o" { default = { a = 1, b = "x" } }
`

	if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
		f.Fatal(err)
	}

	cfg, diags := config.Load(config.Options{Path: path})
	if diags.HasErrors() {
		f.Fatal(diags)
	}

	f.Fuzz(func(t *testing.T, text string) {
		v, diags := cfg.Eval(text)
		placed(t, text, diags)
		if !diags.HasErrors() {
			_ = v.GoString()
		}
	})
}

// FuzzVarFile reads files with values of variables.
func FuzzVarFile(f *testing.F) {
	for _, text := range []string{
		"n = 4\n", "l = [1, 2]\no = { a = 2, b = \"y\" }\n", "n = \"x\"\n", "n = 1\nn = 2\n", "other = 1\n", "n {\n}\n",
		"l = var.n\n", "n = null\n",
		"o = {\n  a = 1e400\n}\n", "l = [for x in [1] : x]\n", "n = <<EOT\n3\nEOT\n", "\ufeffn = 1\n", "n = 1 # c",
		"/* ", "n", "= 1", "o = { a = { a = 1 } }",
	} {
		f.Add(text)
	}
	plan := `
variable "n" { type = number }
variable "l" {
  type    = list(number)
  default = [1]
}
variable "o" {
  type    = object({ a = number, b = optional(string) })
  default = { a = 1 }
  validation {
    condition     = var.o.a > 0
    error_message = "a is positive"
  }
}
`

	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		path, values := filepath.Join(dir, "plan.hcl"), filepath.Join(dir, "values.hcl")
		for name, s := range map[string]string{path: plan, values: text} {
			if err := os.WriteFile(name, []byte(s), 0o644); err != nil {
				t.Fatal(err)
			}
		}

		_, diags := config.Load(config.Options{Path: path, VarFiles: []string{values}})
		placed(t, text, diags)
	})
}
