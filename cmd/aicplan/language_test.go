package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/measure"
	"aicplan/docs"
	"aicplan/engine/config"
	"aicplan/systems"
)

// page is a document split by headings.
type page struct {
	name     string
	sections map[string]string
}

func readPage(t *testing.T, name string) *page {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repoRoot(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{name: "docs/" + name, sections: map[string]string{}}
	heading, fenced := "", false
	for line := range strings.Lines(string(data)) {
		fenced = fenced != strings.HasPrefix(line, "```")
		if h := strings.TrimLeft(line, "#"); !fenced && len(line)-len(h) >= 2 && len(line)-len(h) <= 3 {
			heading = strings.TrimSpace(h)
			continue
		}
		p.sections[heading] += line
	}
	return p
}

// section returns the text of a page of the reference.
func section(t *testing.T, name string) string {
	t.Helper()
	text, ok := docs.Page(name)
	if !ok {
		t.Errorf("docs/reference has no page %s.md", name)
	}
	return text
}

// section returns the text below a heading of the second or third level.
func (p *page) section(t *testing.T, heading string) string {
	t.Helper()
	s, ok := p.sections[heading]
	if !ok {
		t.Errorf("%s has no section %q", p.name, heading)
	}
	return s
}

// names reports whether text contains word in a code span, alone or before a value.
func names(text, word string) bool {
	return strings.Contains(text, "`"+word+"`") || strings.Contains(text, "`"+word+" = ")
}

// TestLanguageIsDocumented checks that the reference has all functions and the fields of systems. Attributes
// are generated, see TestReferenceIsCurrent.
func TestLanguageIsDocumented(t *testing.T) {
	t.Parallel()
	functions := section(t, "expressions")
	for name := range config.Functions() {
		if !strings.Contains(functions, "`"+name+"(") {
			t.Errorf("docs/reference/expressions.md does not have the function %s", name)
		}
	}

	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	for field := range spec.Object() {
		if !names(section(t, "system"), field) {
			t.Errorf("docs/reference/system.md does not have the field %s", field)
		}
	}
}

// TestColumnsAreDocumented checks that the page about measuring has the columns of a measurement.
func TestColumnsAreDocumented(t *testing.T) {
	t.Parallel()
	columns := readPage(t, "reference/measuring.md").section(t, "Columns")
	for name := range (measure.Measured{ClockMHz: 1, ReadyMHz: 1}).Columns() {
		if !names(columns, name) {
			t.Errorf("docs/reference/measuring.md does not have the column %s", name)
		}
	}
}
