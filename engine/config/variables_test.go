package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestExtraAttributes checks that an attribute which the type of a variable lacks is an error at its place,
// because conversion would drop it.
func TestExtraAttributes(t *testing.T) {
	t.Parallel()
	const cell = "object({ id = string, size = optional(number, 1) })"
	load := func(plan string, vars ...string) hcl.Diagnostics {
		path := filepath.Join(t.TempDir(), "plan.hcl")
		if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, diags := Load(Options{Path: path, Vars: vars})
		if cfg != nil && !diags.HasErrors() {
			_, more := cfg.Eval("var.v")
			diags = append(diags, more...)
		}
		return diags
	}

	for _, c := range []struct {
		name, plan, given string
		line              int
		want              string
	}{
		{"default", "variable \"v\" {\n type = list(" + cell + ")\n default = [\n  { id = \"a\" },\n  { id = \"b\",\n    sise = 2 },\n ]\n}", "",
			6, `The default of var.v[1] has no attribute "sise". Did you mean "size"?`},
		{"flag", "variable \"v\" { type = list(" + cell + ") }", "v=[{ id = \"a\" },\n{ id = \"b\", \"sise\" = 2 }]", 2, `var.v[1] has no attribute "sise".`},
		{"map", "variable \"v\" { type = map(" + cell + ") }", "v={ x = { id = \"a\",\n other = 2 } }", 2, `var.v["x"] has no attribute "other". Known: id, size.`},
		{"wrong type", "variable \"v\" { type = list(" + cell + ") }", "v=[{ id = \"a\",\n size = \"b\" }]", 2, "[0].size: a number is required."},
		{"tuple", "variable \"v\" { type = tuple([number, " + cell + "]) }", "v=[1, { id = \"a\",\n other = 2 }]", 2, `var.v[1] has no attribute "other".`},
	} {
		var vars []string
		if c.given != "" {
			vars = []string{c.given}
		}
		diags := load(c.plan, vars...)
		if !diags.HasErrors() || !strings.Contains(diags[0].Detail, c.want) || diags[0].Subject.Start.Line != c.line {
			t.Errorf("%s: %v, want line %d and %q", c.name, diags, c.line, c.want)
		}
	}

	for _, given := range []string{`v=[{ id = "a" }, { id = "b", size = 2 }]`, `v=[]`, `v=null`} {
		if diags := load("variable \"v\" { type = list("+cell+") }", given); diags.HasErrors() {
			t.Errorf("%s: %v", given, diags)
		}
	}
}
