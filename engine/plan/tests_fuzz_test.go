package plan_test

import (
	"os"
	"path/filepath"
	"testing"

	"aicplan/engine/plantest"
)

// FuzzTestFile opens arbitrary text as a test file. It must be valid, or its errors must have a range.
func FuzzTestFile(f *testing.F) {
	seeds, err := filepath.Glob("../../plans/modules/*/*.aictest.hcl")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}

	for _, path := range seeds {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}

	for _, text := range []string{
		"run \"a\" {\n}\n", "run \"a\" {\n  plan = \"p.hcl\"\n  expect \"grid.g\" {\n    cases = 3\n  }\n}\n",
		"run {\n}\n", "run \"a\" {\n  assert {\n    condition = 1\n  }\n}\n",
		"variables {\n  a = 1\n}\n", "run \"a\" {\n  run \"b\" {\n  }\n}\n", "run \"${x}\" {\n}\n",
	} {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "x.aictest.hcl")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}

		file, _, diags := plantest.Open(path)
		if file == nil && !diags.HasErrors() {
			t.Fatal("neither a file nor an error")
		}

		for _, d := range diags {
			if d.Subject == nil || d.Subject.Filename == "" || d.Summary == "" {
				t.Errorf("a diagnostic that says too little: %v", d)
			}
		}
	})
}
