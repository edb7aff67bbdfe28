package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestTextsThatAreNumbers checks the warning about texts that an untyped variable reads as a number
// with a different spelling.
func TestTextsThatAreNumbers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.hcl")
	plan := "variable \"plain\" {}\nvariable \"word\" { default = \"a\" }\nvariable \"count\" { default = 1 }\nvariable \"any\" { default = null }\n" +
		"variable \"text\" { type = string }\nvariable \"number\" { type = number }\nvariable \"secret\" { sensitive = true }\n"
	if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}

	given := []string{"plain=1-00", "word=1.10", "count=1-00", "any=007", "text=1.10", "number=1.10", "secret=1.10"}
	for _, c := range []struct {
		vars []string
		want []string // names with a warning
	}{
		{given, []string{"plain", "word", "any"}},
		{append(slices.Clone(given), "plain=-1.5", "word=7", "any=[1.10]"), nil},
		{append(slices.Clone(given), `plain="1.10"`, "word=v1.10", "any=true"), nil},
	} {
		cfg, diags := Load(Options{Path: path, Version: "0.1.0", Vars: c.vars})
		if diags.HasErrors() {
			t.Fatal(diags)
		}

		var got []string
		for _, d := range diags {
			if d.Severity == hcl.DiagWarning && d.Summary == "Text read as a number" {
				name, _, _ := strings.Cut(strings.TrimPrefix(d.Detail, "var."), " ")
				got = append(got, name)
			}
		}

		slices.Sort(got)
		want := slices.Clone(c.want)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: told of %q, want %q", c.vars, got, want)
		}

		if v, _ := cfg.Eval("var.count"); v.AsBigFloat().String() != "1" {
			t.Errorf("var.count is %v", v)
		}
	}
}
