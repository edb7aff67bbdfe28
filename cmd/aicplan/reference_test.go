package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/docs"
	"aicplan/engine/config"
	"aicplan/engine/stage"
	"aicplan/sink/catalog"
	"aicplan/stages"
	"aicplan/stages/gate"
	"aicplan/stages/preflight"
	"aicplan/stages/runtimes"
)

// TestReferenceIsCurrent compares the tables of docs/reference and the pages of the commands with the
// program. Names, types and defaults come from the schema, descriptions from the comments above the
// fields, from the options of runtimes and from the command line parser. A table begins with a line
// "| attribute of `gate` | ...". make reference writes the tables and pages.
func TestReferenceIsCurrent(t *testing.T) {
	if !*update {
		t.Parallel()
	}

	root := repoRoot(t)
	tables := referenceTables(t, root)
	used := map[string]bool{}
	for _, path := range documents(t) {
		if filepath.Base(filepath.Dir(path)) != "reference" {
			continue
		}

		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		compareFile(t, path, string(data), renewTables(t, filepath.Base(path), string(data), tables, used))
	}
	for head := range tables {
		if !used[head] {
			t.Errorf("no page of docs/reference has a table that begins with | %s |", head)
		}
	}

	pages := commandPages(rootNode(t))
	index, _ := docs.Page("commands")
	old, err := filepath.Glob(filepath.Join(root, "docs/reference/commands/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range old {
		if pages[filepath.Base(path)] == "" {
			t.Errorf("%s describes no command; remove it", path)
		}
	}
	for name, text := range pages {
		if !strings.Contains(index, "(commands/"+name+")") {
			t.Errorf("docs/reference/commands.md has no link to commands/%s", name)
		}
		path := filepath.Join(root, "docs/reference/commands", name)
		data, err := os.ReadFile(path)
		if err != nil && !*update {
			t.Error(err)
			continue
		}
		compareFile(t, path, string(data), text)
	}
}

// compareFile reports a difference between a page and its generated text. With -update it writes the text.
func compareFile(t *testing.T, path, have, want string) {
	t.Helper()
	if have == want {
		return
	}

	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}

	h, w := strings.Split(have, "\n"), strings.Split(want, "\n")
	for i := range min(len(h), len(w)) {
		if h[i] != w[i] {
			t.Errorf("%s:%d is not current; run make reference\nhave %s\nwant %s", path, i+1, h[i], w[i])
			return
		}
	}
	t.Errorf("%s has %d lines, want %d; run make reference", path, len(h), len(w))
}

var tableHead = regexp.MustCompile("^\\| ((?:attribute|check|output|metric) of `[a-z_ ]+`) \\|")

// renewTables returns the text of a page with current tables.
func renewTables(t *testing.T, name, text string, tables map[string]string, used map[string]bool) string {
	t.Helper()
	var out strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if inside = inside && strings.HasPrefix(line, "|"); inside {
			continue
		}

		m := tableHead.FindStringSubmatch(line)
		if m == nil {
			out.WriteString(line)
			continue
		}

		if tables[m[1]] == "" || used[m[1]] {
			t.Errorf("%s: unknown or repeated table %q", name, m[1])
		}
		used[m[1]] = true
		out.WriteString(tables[m[1]])
		inside = true
	}

	return out.String()
}

// attribute is a row of a table. Type has its default, or "required".
type attribute struct{ name, typ, text string }

// attributeTable returns the Markdown of rows. Every attribute must have a description.
func attributeTable(t *testing.T, head string, rows []attribute) string {
	t.Helper()
	out := fmt.Sprintf("| %s | type | meaning |\n|---|---|---|\n", head)
	for _, a := range rows {
		if a.text == "" {
			t.Errorf("%s: %s has no description; write a comment above it", head, a.name)
		}
		out += fmt.Sprintf("| %s | %s | %s |\n", a.name, escaped(a.typ), escaped(a.text))
	}

	return out
}

func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// referenceTables returns the tables of docs/reference by the first cells of their heads.
func referenceTables(t *testing.T, root string) map[string]string {
	t.Helper()
	tables := map[string]string{}
	add := func(what, name string, rows []attribute) {
		rows = slices.DeleteFunc(rows, func(a attribute) bool {
			return what == "attribute" && strings.HasSuffix(a.name, "description`") && !slices.Contains([]string{"variable",
				"stage", "output", "table", "grid", "test"}, name)
		})
		head := fmt.Sprintf("%s of `%s`", what, name)
		tables[head] = attributeTable(t, head, rows)
	}
	docs := readDocs(t, root)

	all := stages.All()
	defer all.Close()
	for name, k := range all.Kinds {
		rows := blockRows(t, name, k, docs)
		add("attribute", name, slices.DeleteFunc(slices.Clone(rows), func(a attribute) bool {
			return strings.HasPrefix(a.name, "`measure.") // measuring.md has them
		}))
		for block, words := range stage.Words(k.New()) {
			for _, w := range words {
				if !strings.HasPrefix(block, "check ") && !mentions(rows, w) {
					t.Errorf("the table of %s lacks %s of %q", name, w, block)
				}
			}
		}

		var outputs []attribute
		for output, typ := range k.Outputs {
			outputs = append(outputs, attribute{"`" + output + "`", typeName(typ),
				described(docs.elements[name+"."+output], "", "", "", "").text})
		}
		if len(outputs) > 0 {
			slices.SortFunc(outputs, func(a, b attribute) int { return strings.Compare(a.name, b.name) })
			add("output", name, outputs)
		}
	}

	add("attribute", "measure", measureRows(t, docs))
	add("attribute", "bind", docs.fields(t, "ops.KernelBinding", nil, "json", ""))
	add("check", "gate", gateChecks(t, docs))
	add("check", "preflight", preflightChecks(docs))
	add("attribute", "part", docs.literals("partSchema", ""))
	add("attribute", "variable", docs.fields(t, "variableBody", nil, "hcl", ""))
	add("attribute", "output", docs.literals("outputWords", ""))
	add("attribute", "module", docs.literals("moduleWords", ""))
	add("attribute", "stage", docs.literals("metaArguments", ""))
	add("attribute", "table", docs.fields(t, "tableBody", nil, "hcl", ""))
	add("attribute", "system", docs.fields(t, "systemBody", nil, "hcl", ""))
	add("attribute", "test", slices.Concat(docs.fields(t, "runBody", nil, "hcl", ""), docs.literals("runBlocks", ""),
		docs.fields(t, "expectBody", nil, "hcl", "expect."), docs.fields(t, "assertBody", nil, "hcl",
			"assert."), docs.fields(t, "diagBody", nil, "hcl", "expect_error.")))

	for _, s := range all.Services() {
		add("attribute", s.Name, blockOptions(s.Options, s.Blocks, nil))
	}

	add("attribute", "runtime", sharedOptions(t, docs))
	kinds := runtimes.Registered(runtimes.Kinds())
	endpoint := kinds[slices.IndexFunc(kinds, func(k stage.RuntimeKind) bool { return k.Name == "endpoint" })]
	for _, k := range kinds {
		shared := map[string]bool{}
		if k.Name == "server" {
			for _, o := range endpoint.Options {
				shared[o.Name] = true
			}
		}

		var blocks []stage.Block
		for _, b := range slices.Concat(k.Blocks, k.Collect) {
			inEndpoint := slices.ContainsFunc(endpoint.Collect, func(c stage.Block) bool { return c.Name == b.Name })
			switch {
			case k.Name == "endpoint":
				add("attribute", b.Name, optionRows(b.Options, b.Beside, "", nil))
			case !inEndpoint:
				blocks = append(blocks, b)
			}
		}
		add("attribute", k.Name, blockOptions(k.Options, blocks, shared))
	}

	var metrics []attribute
	for _, c := range catalog.SchemaOf("serving_perf").Metrics {
		text := fmt.Sprintf("%s values are better", c.Better)
		if !c.Lacking {
			text += "; every row has it"
		}
		unit := c.Unit
		if unit == "" {
			unit = "count"
		}
		at := slices.IndexFunc(metrics, func(a attribute) bool { return a.typ == unit && a.text == text })
		if at < 0 {
			metrics = append(metrics, attribute{"`" + c.Name + "`", unit, text})
		} else {
			metrics[at].name += ", `" + c.Name + "`"
		}
	}
	add("metric", "serving_perf", metrics)

	return tables
}

// blockRows returns the attributes and blocks of a stage kind in the order of the source.
func blockRows(t *testing.T, name string, k stage.Kind, docs *sourceDocs) []attribute {
	switch name {
	case "gate":
		return slices.Concat(docs.literals("bodySchema", ""), docs.literals("commonAttributes", "check."),
			docs.fields(t, "gate.assertion", nil, "hcl", "assert."))
	case "grid":
		return slices.Concat(docs.literals("gridSchema", ""), docs.literals("productBlocks", ""),
			docs.literals("axisSchema", "axis."), docs.literals("deriveSchema", "derive."),
			docs.literals("filterSchema", "filter."), docs.literals("distinctSchema", "distinct."),
			docs.literals("caseSetSchema", "case_set."), docs.literals("sweepSchema", "sweep."))
	}
	return docs.fields(t, typeOf(k.New()), k.New(), "hcl", "")
}

// mentions reports whether a row is about the attribute or block called word.
func mentions(rows []attribute, word string) bool {
	return slices.ContainsFunc(rows, func(a attribute) bool {
		return strings.HasPrefix(a.name, "`"+word+"`") || strings.HasSuffix(a.name, "."+word+"`") || word == "description"
	})
}

// gateChecks returns a row for each check of gates and for each of its attributes.
func gateChecks(t *testing.T, docs *sourceDocs) []attribute {
	var out []attribute
	defaults := gate.Defaults()
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		row := described(docs.comments[typeOf(defaults[name])], strings.TrimPrefix(typeOf(defaults[name]), "gate."), name,
			"check", "")
		out = append(out, row)
		out = append(out, docs.fields(t, typeOf(defaults[name]), defaults[name], "hcl", name+".")...)
	}

	return out
}

// preflightChecks returns a row for each check of preflights and for each of its attributes.
func preflightChecks(docs *sourceDocs) []attribute {
	var out []attribute
	for _, c := range preflight.Checks(nil, nil) {
		text := c.Summary
		if c.Needs != "" {
			text += "; the preflight must name a " + c.Needs
		}
		out = append(out, attribute{"`" + c.Name + "`", "check", text})
		for _, a := range c.Attributes {
			out = append(out, described(docs.elements[c.Name+"."+a.Name], a.Name, c.Name+"."+a.Name, "number", ""))
		}
	}

	return out
}

// measureRows returns the settings of a measure block with their defaults.
func measureRows(t *testing.T, docs *sourceDocs) []attribute {
	raw, err := json.Marshal(measure.Defaults())
	if err != nil {
		panic(err)
	}
	var defaults map[string]json.RawMessage
	if err := json.Unmarshal(raw, &defaults); err != nil {
		panic(err)
	}

	rows := docs.fields(t, "MeasureBlock", nil, "hcl", "")
	for i, a := range rows {
		value := string(defaults[strings.Trim(a.name, "`")])
		if strings.HasPrefix(value, `"`) {
			value = "`" + value + "`"
		}
		rows[i].typ += ", default " + value
	}

	return rows
}

// sharedOptions returns the attributes of runtimes, with the kinds that use those that not all of them have.
func sharedOptions(t *testing.T, docs *sourceDocs) []attribute {
	t.Helper()
	out := docs.fields(t, "stage.Runtime", nil, "hcl", "")
	for i := range out {
		name := strings.Trim(out[i].name, "`")
		if !slices.Contains(stage.RuntimeCommon, name) {
			var kinds []string
			for _, k := range runtimes.Registered(runtimes.Kinds()) {
				if k.Has(name) {
					kinds = append(kinds, k.Name)
				}
			}
			out[i].text += " (" + strings.Join(kinds, ", ") + ")"
		}
	}

	return out
}

func blockOptions(options []stage.Option, blocks []stage.Block, skip map[string]bool) []attribute {
	out := optionRows(options, false, "", skip)
	for _, b := range blocks {
		out = append(out, attribute{"`" + b.Name + "`", "block", b.Doc})
		out = append(out, optionRows(b.Options, b.Beside, b.Name+".", nil)...)
	}
	return out
}

// optionRows returns options as rows. A dagger marks those that do not change the meaning of rows.
func optionRows(options []stage.Option, beside bool, prefix string, skip map[string]bool) []attribute {
	var out []attribute
	for _, o := range options {
		if skip[o.Name] {
			continue
		}

		name := "`" + prefix + o.Name + "`"
		if o.Beside || beside {
			name += " †"
		}
		typ := typeName(o.Type)
		switch {
		case o.Required:
			typ += ", required"
		case o.Default != "":
			typ += ", default " + markQuotes(o.Default)
		}
		text := o.Doc
		if slices.ContainsFunc(o.OneOf, func(word string) bool { return !strings.Contains(text, word) }) {
			text += ": `\"" + strings.Join(o.OneOf, "\"`, `\"") + "\"`"
		}
		out = append(out, attribute{name, typ, text})
	}

	return out
}

var quotation = regexp.MustCompile(`"[^"]*"`)

// markQuotes writes quoted words outside of code spans as code.
func markQuotes(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = quotation.ReplaceAllString(parts[i], "`$0`")
	}
	return strings.Join(parts, "`")
}

// typeName returns the name of a type as Terraform's documentation writes it.
func typeName(typ cty.Type) string {
	switch {
	case typ == cty.NilType || typ == cty.DynamicPseudoType:
		return "any"
	case typ.IsListType():
		return "list of " + typeName(typ.ElementType()) + "s"
	case typ.IsMapType():
		return "map of " + typeName(typ.ElementType()) + "s"
	}
	return config.TypeText(typ)
}

// planHelp describes the argument that most commands have.
const planHelp = "Plan file, or a folder of plan files."

// commandPages returns a page for each command, by file name.
func commandPages(top *kong.Node) map[string]string {
	pages := map[string]string{}
	for _, n := range top.Leaves(true) {
		verb := strings.TrimPrefix(n.Path(), "aicplan ")
		text := fmt.Sprintf("# aicplan %s\n\n%s Usage: `aicplan %s`.", verb, n.Help, n.Summary())
		if e := examples()[verb]; e != "" && !strings.Contains(n.Detail, "aicplan "+verb) {
			text += " Example: `" + e + "`."
		}

		var codes []string
		for _, e := range exitCodes {
			if len(e.Verbs) > 0 && e.of(verb) {
				codes = append(codes, fmt.Sprintf("%d %s", e.Code, e.Meaning))
			}
		}
		if len(codes) > 0 && !strings.Contains(n.Detail, "Exit code") {
			text += " Further [exit codes](../commands.md#exit-codes): " + strings.Join(codes, "; ") + "."
		}
		var rows, shared []string
		for _, p := range n.Positional {
			if p.Help == planHelp {
				shared = append(shared, "`"+p.Summary()+"`")
				continue
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", escaped(p.Summary()), escaped(p.Help)))
		}
		for _, f := range n.Flags {
			switch {
			case f.Hidden || f.Name == "help":
			case f.Name == "var" || f.Name == "var-file" || f.Help == "Print as JSON.":
				shared = append(shared, "`--"+f.Name+"`")
			default:
				rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", escaped(strings.TrimSpace(f.Summary())),
					escaped(withDefault(f.Value))))
			}
		}
		if len(shared) > 0 {
			text += " As in [several commands](../commands.md): " + strings.Join(shared, ", ") + "."
		}
		text += "\n\n"

		if detail := strings.TrimSpace(n.Detail); detail != "" {
			text += "```text\n" + detail + "\n```\n\n"
		}

		if len(rows) > 0 {
			text += "| argument or flag | meaning |\n|---|---|\n" + strings.Join(rows, "")
		}
		pages[strings.ReplaceAll(verb, " ", "-")+".md"] = strings.TrimRight(text, "\n") + "\n"
	}

	return pages
}
