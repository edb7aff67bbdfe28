package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLicencesPageHasAllModules checks that the page of licences has the modules of go.mod.
func TestLicencesPageHasAllModules(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile(filepath.Join(repoRoot(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	page := section(t, "licences")
	modules := 0
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(line, "\t"); ok && strings.Contains(name, " v") {
			modules++
			if name, _, _ = strings.Cut(name, " "); !strings.Contains(page, " "+name+",") &&
				!strings.Contains(page, " "+name+" |") {
				t.Errorf("docs/reference/licences.md lacks %s", name)
			}
		}
	}

	if modules < 50 {
		t.Errorf("found only %d modules in go.mod", modules)
	}
}
