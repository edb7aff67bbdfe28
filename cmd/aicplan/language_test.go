package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/ops"
	"aicplan/docs"
	"aicplan/engine/config"
	"aicplan/engine/plantest"
	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/stages"
	"aicplan/stages/gate"
	"aicplan/stages/runtimes"
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

// reference is the pages of docs/reference, which aicplan help prints.
type reference struct{}

// section returns the text of a page.
func (reference) section(t *testing.T, name string) string {
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

// TestLanguageIsDocumented checks that the language page contains all functions, blocks, attributes of
// stage kinds and checks, options of runtimes, and fields of systems.
func TestLanguageIsDocumented(t *testing.T) {
	t.Parallel()
	p := reference{}
	functions := p.section(t, "functions")
	for name := range config.Functions() {
		if !strings.Contains(functions, "`"+name+"(") {
			t.Errorf("%s does not have the function %s", "docs/reference", name)
		}
	}
	for block, words := range config.Words() {
		heading := map[string]string{"validation": "variable", "table.column": "table", "table.metric": "table"}[block]
		if heading == "" {
			heading = block
		}
		text := p.section(t, heading)
		for _, w := range words {
			if !names(text, w) {
				t.Errorf("%s: the section %q does not name %s", "docs/reference", heading, w)
			}
		}
	}
	for block, words := range plantest.Words() {
		for _, w := range words {
			if !names(p.section(t, "tests"), w) {
				t.Errorf("%s: the page \"tests\" does not name %s of %s", "docs/reference", w, block)
			}
		}
	}
	for _, word := range undocumented(p.section(t, "runtime"), runtimes.Registered(runtimes.Kinds())) {
		t.Errorf("%s: the section \"runtime\" does not have %s", "docs/reference", word)
	}
	spec, err := systems.Load("h200_sxm")
	if err != nil {
		t.Fatal(err)
	}
	for field := range spec.Object() {
		if !names(p.section(t, "system"), field) {
			t.Errorf("%s: the section \"system\" does not name the field %s", "docs/reference", field)
		}
	}
	for _, kind := range []any{ops.KernelBinding{}, ops.KernelArg{}} {
		for i := range reflect.TypeOf(kind).NumField() {
			if w := reflect.TypeOf(kind).Field(i).Tag.Get("json"); !names(p.section(t, "collect"), w) && !strings.Contains(p.section(t, "collect"), w+" = ") {
				t.Errorf("%s: \"collect\" does not name %s of a kernel's binding", "docs/reference", w)
			}
		}
	}
	all := stages.All()
	defer all.Close()
	for _, k := range all.Services() {
		text := p.section(t, k.Name)
		for _, w := range k.Words() {
			if !names(text, w) {
				t.Errorf("%s: the section %q does not name %s", "docs/reference", k.Name, w)
			}
		}
	}
	for name, k := range all.Kinds() {
		t.Run(name, func(t *testing.T) { documentedKind(t, "docs/reference", p.section(t, name), k) })
	}
}

// undocumented returns the registered kinds, options and blocks of runtimes that are missing in text.
func undocumented(text string, kinds []stage.RuntimeKind) []string {
	var out []string
	want := func(word, what string) {
		if !names(text, word) {
			out = append(out, what+" "+word)
		}
	}
	for _, k := range kinds {
		want(k.Name, "the kind")
		for _, o := range k.Options {
			want(o.Name, "the option of kind "+k.Name)
		}
		for _, b := range slices.Concat(k.Blocks, k.Collect) {
			want(b.Name, "the block of kind "+k.Name)
			for _, o := range b.Options {
				want(o.Name, "the option of block "+b.Name)
			}
		}
	}
	return out
}

// documentedKind checks that a kind's section contains all its words, those of a check in the row of the
// check, and that its tables of attributes contain no others.
func documentedKind(t *testing.T, name, text string, k stage.Kind) {
	rows := tableRows(text)
	words := stage.Words(k.New())
	known := map[string]bool{}
	for block, list := range words {
		check, isCheck := strings.CutPrefix(block, "check ")
		if isCheck {
			known[check] = true
			list = append(slices.Clone(list), check)
		}
		for _, w := range list {
			known[w] = true
			switch {
			case w == "description": // common to all stages
			case isCheck && !names(rows[check], w):
				t.Errorf("%s: no row of a table in %q begins with the check %s and names %s", name, k.Name, check, w)
			case !isCheck && !names(text, w):
				t.Errorf("%s: %q does not name %s", name, k.Name, w)
			}
		}
	}
	for output := range k.Outputs {
		known[output] = true
		if !names(text, output) {
			t.Errorf("%s: %q does not name the output %s", name, k.Name, output)
		}
	}
	for _, m := range []string{"depends_on", "description", "enabled", "for_each"} {
		known[m] = true
	}
	for first := range rows {
		if !known[first] {
			t.Errorf("%s: a table in %q has a row about %s, which is no word of the kind", name, k.Name, first)
		}
	}
}

// TestDefaultsAreDocumented checks that the row of every attribute contains its default, for kinds and
// for checks of gates.
func TestDefaultsAreDocumented(t *testing.T) {
	t.Parallel()
	p := reference{}
	all := stages.All()
	defer all.Close()
	for name, k := range all.Kinds() {
		rows := tableRows(p.section(t, name))
		for attr, text := range defaultsOf(k.New()) {
			if !strings.Contains(rows[attr], text) {
				t.Errorf("%s: the row of %s in %q does not have its default %s", "docs/reference", attr, name, text)
			}
		}
	}
	rows := tableRows(p.section(t, "gate"))
	for check, config := range gate.Defaults() {
		for attr, text := range defaultsOf(config) {
			if !strings.Contains(rows[check], "`"+attr+"` ("+text) {
				t.Errorf("%s: the row of the check %s does not have `%s` (%s)", "docs/reference", check, attr, text)
			}
		}
	}
}

// defaultsOf returns the non-zero values in a struct with gohcl tags, formatted as in the documentation.
func defaultsOf(config any) map[string]string {
	out := map[string]string{}
	v := reflect.Indirect(reflect.ValueOf(config))
	for i := range v.NumField() {
		name, kind, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		if name == "" || kind != "optional" || v.Field(i).IsZero() {
			continue
		}
		switch x := v.Field(i).Interface().(type) {
		case string:
			out[name] = "`\"" + x + "\"`"
		case []string:
			out[name] = "`[\"" + strings.Join(x, "\", \"") + "\"]`"
		case int:
			out[name] = textutil.Count(int64(x))
		case float64, bool:
			out[name] = fmt.Sprint(x)
		}
	}
	return out
}

var (
	wordTable = regexp.MustCompile(`^\| (attribute|block|check|output)s? \|`)
	inTicks   = regexp.MustCompile("`([a-z][a-z0-9_]*)`")
)

// tableRows returns the rows of tables of attributes, blocks, checks and outputs by the words in their
// first cells.
func tableRows(text string) map[string]string {
	out := map[string]string{}
	on := false
	for line := range strings.Lines(text) {
		switch {
		case wordTable.MatchString(line):
			on = true
		case !strings.HasPrefix(line, "|"):
			on = false
		case on:
			first, _, _ := strings.Cut(line[1:], "|")
			for _, m := range inTicks.FindAllStringSubmatch(first, -1) {
				out[m[1]] += line
			}
		}
	}
	return out
}

// TestMeasuringIsDocumented compares the table of measurement settings with their defaults, and the
// table of columns with those of a measurement.
func TestMeasuringIsDocumented(t *testing.T) {
	t.Parallel()
	text := readPage(t, "reference/measuring.md").section(t, "Settings")
	raw, err := json.Marshal(measure.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := json.Unmarshal(raw, &defaults); err != nil {
		t.Fatal(err)
	}
	columns := readPage(t, "reference/measuring.md").section(t, "Columns")
	for name := range (measure.Measured{ClockMHz: 1, ReadyMHz: 1}).Columns() {
		if !names(columns, name) {
			t.Errorf("docs/reference/measuring.md does not have the column %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		row := fmt.Sprintf("| `%s` | %s |", name, plainDefault(defaults[name]))
		if !strings.Contains(text, row) {
			t.Errorf("docs/reference/measuring.md has no row that begins with %s", row)
		}
	}
}

func plainDefault(v any) string {
	switch v := v.(type) {
	case string:
		return "`\"" + v + "\"`"
	case bool:
		return fmt.Sprintf("`%t`", v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return "`" + string(raw) + "`"
}
