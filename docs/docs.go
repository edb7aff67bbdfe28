// Package docs holds the reference pages, which aicplan help prints.
package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

//go:generate make -C .. reference

//go:embed reference/*.md
var pages embed.FS

// Page returns the text of a page of the reference, and whether there is one of that name.
func Page(name string) (string, bool) {
	text, err := pages.ReadFile("reference/" + name + ".md")
	return string(text), err == nil
}

// Names returns the names of all pages, sorted.
func Names() []string {
	var out []string
	entries, _ := fs.ReadDir(pages, "reference") // embedded: it cannot fail
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".md"); name != "README" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
