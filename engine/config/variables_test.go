package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// TestTextsThatAreNumbers checks the warning about texts that an untyped variable reads as a number
// with a different spelling.
func TestTextsThatAreNumbers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.hcl")
	plan := "variable \"plain\" {}\nvariable \"word\" { default = \"a\" }\nvariable \"count\" { default = 1 }\nvariable " +
		"\"any\" { default = null }\n" +
		"variable \"text\" { type = string }\nvariable \"number\" { type = number }\nvariable \"secret\" { sensitive = " +
		"true }\n"
	if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}

	given := []string{"plain=1-00", "word=1.10", "count=1", "any=007", "text=1.10", "number=1.10", "secret=1.10"}
	for _, c := range []struct {
		vars []string
		want []string // names with a warning
	}{
		{given, []string{"plain", "any"}},
		{append(slices.Clone(given), "plain=-1.5", "word=7", "any=[1.10]"), nil},
		{append(slices.Clone(given), `plain="1.10"`, "word=v1.10", "any=true"), nil},
	} {
		cfg, diags := Load(Options{Path: path, Vars: c.vars})
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

		if v, _ := cfg.Eval("[var.count == 1, var.word]"); v.Index(cty.NumberIntVal(0)).False() ||
			v.Index(cty.NumberIntVal(1)).Type() != cty.String {
			t.Errorf("the types of the defaults are not those of the variables: %#v", v)
		}
	}
}

// TestDefaultTypes checks the types of variables that declare none.
func TestDefaultTypes(t *testing.T) {
	t.Parallel()
	for def, want := range map[string]string{
		`"a"`: "string", `1`: "number", `true`: "bool", `[1, 2]`: "list of number", `["a"]`: "list of string",
		`null`: "dynamic", `[]`: "dynamic", `[1, "a"]`: "dynamic", `{ a = 1 }`: "dynamic", `[{ a = 1 }]`: "dynamic",
	} {
		path := filepath.Join(t.TempDir(), "plan.hcl")
		if err := os.WriteFile(path, []byte("variable \"v\" { default = "+def+" }\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, diags := Load(Options{Path: path})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if got := cfg.Variables()[0].Type.FriendlyName(); got != want {
			t.Errorf("a variable with the default %s has the type %s, want %s", def, got, want)
		}
	}
}

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
		{"default", "variable \"v\" {\n type = list(" + cell +
			")\n default = [\n  { id = \"a\" },\n  { id = \"b\",\n    sise = 2 },\n ]\n}", "",
			6, `The default of var.v[1].sise: there is no such attribute. Did you mean "size"?`},
		{"flag", "variable \"v\" { type = list(" + cell + ") }", "v=[{ id = \"a\" },\n{ id = \"b\", \"sise\" = 2 }]", 2,
			"var.v[1].sise: there is no such attribute."},
		{"map", "variable \"v\" { type = map(" + cell + ") }", "v={ x = { id = \"a\",\n other = 2 } }", 2,
			`var.v["x"].other: there is no such attribute. Known: id, size.`},
		{"wrong type", "variable \"v\" { type = list(" + cell + ") }", "v=[{ id = \"a\",\n size = \"b\" }]", 2,
			"[0].size: a number is required."},
		{"tuple", "variable \"v\" { type = tuple([number, " + cell + "]) }", "v=[1, { id = \"a\",\n other = 2 }]", 2,
			"var.v[1].other: there is no such attribute."},
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

func TestAutoVarFilesInOddFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plans[1]")
	path := filepath.Join(dir, "a"+autoVarsSuffix)
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if got := autoVarFiles(dir); len(got) != 1 || got[0] != path {
		t.Errorf("%v", got)
	}
}

// TestVariableErrorsInSourceOrder checks that the errors of a variable block have the same order in each load.
func TestVariableErrorsInSourceOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plan.hcl")
	plan := `variable "a" {
  default     = 1
  sensitive   = "maybe"
  description = null
  validation {
    condition = true
  }
}
`
	if err := os.WriteFile(path, []byte(plan), 0o644); err != nil {
		t.Fatal(err)
	}

	for range 20 {
		_, diags := Load(Options{Path: path})
		var lines []int
		for _, d := range diags {
			lines = append(lines, d.Subject.Start.Line)
		}
		if len(lines) < 3 || !slices.IsSorted(lines) {
			t.Fatalf("errors on the lines %v: %v", lines, diags)
		}
	}
}

// TestTypeText checks that a type is printed as a plan declares it, in tuples, too.
func TestTypeText(t *testing.T) {
	t.Parallel()
	cell := cty.ObjectWithOptionalAttrs(map[string]cty.Type{"id": cty.String, "size": cty.Number}, []string{"size"})
	for want, typ := range map[string]cty.Type{
		"tuple([object({ id = string, size = optional(number) }), any])": cty.Tuple([]cty.Type{cell, cty.DynamicPseudoType}),
		"map(list(bool))": cty.Map(cty.List(cty.Bool)),
	} {
		if got := TypeText(typ); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
