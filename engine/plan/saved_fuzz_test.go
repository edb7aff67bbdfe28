package plan_test

import (
	"os"
	"path/filepath"
	"testing"

	"aicplan/engine/plan"
)

// FuzzSaved opens what may be a saved plan: it is one, or an error that names the
// file.
func FuzzSaved(f *testing.F) {
	for _, text := range []string{
		`{"format":"aicplan-plan/2","path":"p.hcl","vars":["a=1"],"options":{},"summary":{},"stages":{"grid.g":{"kind":"grid","body":{},"cases":1}}}`,
		`{"format":"aicplan-plan/2","stages":{"grid.g":{"cases":2}}}`,
		`{"format":"aicplan-plan/2","stages":null,"sensitive":["x"]}`,
		`{"format":"1"}`, `{"format":2}`, `{`, `[]`, `null`, `{"stages":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "saved.plan")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		plan.IsSaved(path)
		s, err := plan.Open(path)
		if err != nil {
			return
		}
		s.Withholds("a=1")
	})
}
