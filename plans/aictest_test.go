package plans_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"aicplan/engine/checkpoint"
	"aicplan/engine/plantest"
)

var sourceOf = regexp.MustCompile(`source += "(\.\.?/[^"]*)"`)

// TestModules runs the test files of the modules, and fails if a module has none.
func TestModules(t *testing.T) {
	files, err := plantest.Find([]string{"modules"})
	if err != nil {
		t.Fatal(err)
	}
	store, err := checkpoint.Open(filepath.Join(t.TempDir(), "none"), checkpoint.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	tested := map[string]bool{}
	for _, path := range files {
		tested[filepath.Dir(path)] = true
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range sourceOf.FindAllStringSubmatch(string(source), -1) { // modules of the test's own plan
			tested[filepath.Join(filepath.Dir(path), m[1])] = true
		}
		f, _, diags := plantest.Open(path)
		if diags.HasErrors() {
			t.Error(text(diags))
			continue
		}
		for _, r := range f.Runs {
			t.Run(filepath.Base(path)+"/"+r.Name, func(t *testing.T) {
				if res := f.Run(context.Background(), r, options("", nil), store); !res.Passed() {
					t.Error(text(res.Failures))
				}
			})
		}
	}
	err = filepath.WalkDir("modules", func(path string, d fs.DirEntry, err error) error {
		if dir := filepath.Dir(path); err == nil && filepath.Ext(path) == ".hcl" && !tested[dir] {
			t.Errorf("%s has no file of tests", dir)
			tested[dir] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
