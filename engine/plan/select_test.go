package plan_test

import (
	"os"
	"path/filepath"
	"testing"

	"aicplan/engine/plan"
)

// TestGlobsOverKeysAndModules selects among instances whose keys hold what
// addresses are made of.
func TestGlobsOverKeysAndModules(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "m"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "m", "main.hcl"),
		[]byte("thing \"t\" {}\nthing \"u\" {\n  for_each = [\"a.b\"]\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const text = `
thing "k" { for_each = ["q\"x", "a.b/c", "*", "]"] }
module "m" {
  source   = "./m"
  for_each = { x = 1, "y\"].z" = 2 }
}
`
	const (
		quote, path, star, bracket = `thing.k["q\"x"]`, `thing.k["a.b/c"]`, `thing.k["*"]`, `thing.k["]"]`
		xt, xu                     = `module.m["x"].thing.t`, `module.m["x"].thing.u["a.b"]`
		yt, yu                     = `module.m["y\"].z"].thing.t`, `module.m["y\"].z"].thing.u["a.b"]`
	)
	for glob, want := range map[string]string{
		quote:                  quote,
		`thing.k["q\"*"]`:      quote,
		`thing.k["a.b/c"]`:     path,
		`thing.k["a*"]`:        path,
		"thing.k":              star + " " + bracket + " " + path + " " + quote,
		"thing.u":              xu + " " + yu,
		"module.m.thing.u":     xu + " " + yu,
		`module.m["x"].thing*`: xt + " " + xu,
		`module.m["x"]`:        xt + " " + xu,
		"module.m":             xt + " " + xu + " " + yt + " " + yu,
		"module.*":             xt + " " + xu + " " + yt + " " + yu,
		yu:                     yu,
	} {
		p, diags := build(t, dir, text, plan.Options{Targets: []string{glob}})
		if diags.HasErrors() {
			t.Errorf("%s: %v", glob, diags)
			continue
		}
		if got := addresses(p); got != want {
			t.Errorf("--target %s selects %s, want %s", glob, got, want)
		}
	}
	for _, glob := range []string{"module.n", "module.m.thing", "m", `module.m["z"]`} {
		if _, diags := build(t, dir, text, plan.Options{Targets: []string{glob}}); !diags.HasErrors() {
			t.Errorf("--target %s fits nothing and is taken", glob)
		}
	}
}

// What is to be replaced must be among what runs.
func TestReplaceOutsideOfTheSelection(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const text = "thing \"a\" {}\nthing \"b\" {}\n"
	for glob, wrong := range map[string]bool{"thing.a": false, "thing.b": true, "thing.*": false} {
		_, diags := build(t, dir, text, plan.Options{Targets: []string{"thing.a"}, Replace: []string{glob}})
		if diags.HasErrors() != wrong {
			t.Errorf("--replace %s --target thing.a: %v", glob, diags)
		}
	}
}
