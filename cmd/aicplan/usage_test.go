package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/engine/config"
	"aicplan/engine/plantest"
	"aicplan/engine/stage"
	"aicplan/stages"
	"aicplan/stages/runtimes"
)

// unusedWords may lack a use, for the stated reason.
var unusedWords = map[string]string{
	"flag --no-color": "the environment variable NO_COLOR is what scripts set",
}

// TestEveryWordIsUsed requires a use of each block, attribute, check, function
// and runtime option in a shipped plan, module, example or tested page, and of each
// verb and flag in a page or a command script. With -v it lists each word with the
// first file that uses it.
func TestEveryWordIsUsed(t *testing.T) {
	t.Parallel()
	used := usedWords(t)
	for word := range unusedWords {
		if used[word] != "" {
			t.Errorf("%s is used: remove it from unusedWords", word)
		}
	}

	words := slices.Sorted(maps.Keys(allWords(t)))
	if len(words) < 300 {
		t.Fatalf("only %d words", len(words))
	}
	for _, word := range words {
		if used[word] == "" && unusedWords[word] == "" {
			t.Errorf("%s has no use", word)
		}
		if testing.Verbose() {
			t.Logf("%s: %s", word, used[word])
		}
	}
}

// allWords returns what plans and command lines may contain: "KIND.BLOCK.ATTRIBUTE", with the nearest
// block or no block at the top level; "runtime KIND.OPTION"; "function NAME"; "verb NAME"; "VERB --FLAG",
// or "flag --FLAG" for flags that several verbs share.
func allWords(t *testing.T) map[string]bool {
	out := map[string]bool{}
	add := func(top string, vocabulary stage.Vocabulary) {
		for block, words := range vocabulary {
			for _, w := range words {
				if w != "description" || block != "" { // "stage.description" stands for those of all kinds
					out[joined(top, block, w)] = true
				}
			}
			if check, ok := strings.CutPrefix(block, "check "); ok {
				out[joined(top, "check "+check)] = true
			}
		}
	}
	addBlocks := func(top string, blocks []stage.Block) {
		for _, b := range blocks {
			out[joined(top, b.Name)] = true
			for _, o := range b.Options {
				out[joined(top, b.Name, o.Name)] = true
			}
		}
	}

	all := stages.All()
	defer all.Close()
	for name, kind := range all.Kinds {
		out[name] = true
		add(name, stage.Words(kind.New()))
	}
	for block, words := range config.Words() {
		if block == "module" {
			words = []string{"source"} // the others are those of stages
		}
		if block == "validation" {
			block = "variable.validation"
		}
		for _, w := range words {
			out[joined(block, w)] = true
		}
	}
	for block, words := range plantest.Words() {
		for _, w := range words {
			out["test "+joined(block, w)] = true
		}
	}
	for _, k := range all.Services() {
		addBlocks(k.Name, k.Blocks)
		for _, o := range k.Options {
			out[joined(k.Name, o.Name)] = true
		}
	}
	for _, k := range runtimes.Registered(runtimes.Kinds()) {
		top := "runtime " + k.Name
		for _, o := range k.Options {
			out[joined(optionTop(k, o), o.Name)] = true
		}
		addBlocks(top, k.Blocks)
		addBlocks("collect", k.Collect)
	}
	for name := range config.Functions() {
		out["function "+name] = true
	}
	for _, n := range leaves(t) {
		out["verb "+verbOf(n)] = true
		for _, f := range n.Flags {
			if !f.Hidden && f.Name != "help" {
				out[flagWord(n, f)] = true
			}
		}
	}
	for _, f := range rootNode(t).Flags {
		if f.Name != "help" {
			out["flag --"+f.Name] = true
		}
	}
	return out
}

// optionTop returns "runtime KIND", or "runtime" if endpoint and server share the
// option.
func optionTop(k stage.RuntimeKind, o stage.Option) string {
	for _, other := range runtimes.Registered(runtimes.Kinds()) {
		if k.Name == "server" && other.Name == "endpoint" || k.Name == "endpoint" && other.Name == "server" {
			if slices.ContainsFunc(other.Options, func(p stage.Option) bool { return p.Name == o.Name && p.Doc == o.Doc }) {
				return "runtime"
			}
		}
	}
	return "runtime " + k.Name
}

func joined(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ".")
}

func rootNode(t *testing.T) *kong.Node {
	t.Helper()
	parser, err := kong.New(&cli{}, kong.Name("aicplan"), kong.Bind(&app{}), kong.PostBuild(describeFlags))
	if err != nil {
		t.Fatal(err)
	}
	return parser.Model.Node
}

// usedWords returns the words of the plans, modules, examples, pages and scripts,
// each with the first file that uses it.
func usedWords(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	root := repoRoot(t)
	top := rootNode(t)
	for _, dir := range []string{"plans", "examples", "docs", "README.md", "Makefile", "cmd/aicplan/testdata/script"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasSuffix(path, "docs/reference/commands") {
				return filepath.SkipDir // generated: they name every flag
			}
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			used := map[string]bool{}
			switch filepath.Ext(path) {
			case ".hcl":
				planWords(t, used, path, data)
			case ".md":
				for name, text := range pageFiles(string(data)) {
					if filepath.Ext(name) == ".hcl" {
						planWords(t, used, name, []byte(text))
					}
				}
			}
			if dir != "Makefile" {
				expressionWords(used, string(data))
			}
			commandWords(used, top, string(data))
			for word := range used {
				if files[word] == "" {
					files[word] = strings.TrimPrefix(path, root+"/")
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// pageFiles returns the files that a page's test writes, see TestDocs.
func pageFiles(text string) map[string]string {
	out := map[string]string{}
	for _, f := range readFences(text) {
		if f.file != "" {
			out[f.file] += f.text
		}
	}

	return out
}

// planWords adds the blocks, attributes and functions of a plan.
func planWords(t *testing.T, used map[string]bool, path string, data []byte) {
	t.Helper()
	f, diags := hclsyntax.ParseConfig(data, path, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s: %v", path, diags)
	}
	body := f.Body.(*hclsyntax.Body)
	for _, column := range columnNames(body) {
		for _, block := range []string{"load", "iteration"} { // settings that a grid may vary
			used[joined("collect", block, column)] = true
		}
	}
	isTest := strings.HasSuffix(path, config.TestSuffix)
	for _, b := range body.Blocks {
		tops := []string{b.Type}
		switch {
		case isTest:
			tops = []string{"test " + b.Type}
		case b.Type == "runtime":
			tops = append(tops, "runtime "+literal(b.Body.Attributes["kind"]))
		case b.Type == "part":
			tops = append(tops, "grid", "grid.part")
		case len(b.Labels) > 0 && b.Type != "variable" && b.Type != "output":
			tops = append(tops, "stage")
		}
		for _, top := range tops {
			used[top] = true
			blockWords(used, top, "", b.Body)
		}
	}
	functionWords(used, body)
}

func functionWords(used map[string]bool, node hclsyntax.Node) {
	_ = hclsyntax.VisitAll(node, func(node hclsyntax.Node) hcl.Diagnostics {
		if call, ok := node.(*hclsyntax.FunctionCallExpr); ok {
			used["function "+call.Name] = true
		}
		return nil
	})
}

// expressionWords adds the functions in the expressions of tested commands: $ aicplan
// describe PLAN --eval 'EXPRESSION'.
func expressionWords(used map[string]bool, text string) {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, "--eval ")
		if parts := strings.Split(rest, "'"); ok && len(parts) > 2 {
			if expr, diags := hclsyntax.ParseExpression([]byte(parts[1]), "eval", hcl.InitialPos); !diags.HasErrors() {
				functionWords(used, expr)
			}
		}
	}
}

// columnNames returns the labels of all axis and derive blocks.
func columnNames(body *hclsyntax.Body) (out []string) {
	for _, b := range body.Blocks {
		if (b.Type == "axis" || b.Type == "derive") && len(b.Labels) == 1 {
			out = append(out, b.Labels[0])
		}
		out = append(out, columnNames(b.Body)...)
	}
	return out
}

// literal returns the value of an attribute that is a string without references.
func literal(a *hclsyntax.Attribute) string {
	if a == nil {
		return ""
	}
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() {
		return ""
	}
	return v.AsString()
}

func blockWords(used map[string]bool, top, block string, body *hclsyntax.Body) {
	for name := range body.Attributes {
		used[joined(top, block, name)] = true
	}
	for _, b := range body.Blocks {
		used[joined(top, block, b.Type)] = true
		inner := b.Type
		if strings.HasPrefix(top, "test ") {
			used["test "+b.Type] = true
			blockWords(used, "test "+b.Type, "", b.Body)
			continue
		}
		if b.Type == "check" && len(b.Labels) > 0 {
			blockWords(used, top, "check", b.Body)
			inner = "check " + b.Labels[0]
		}
		used[joined(top, inner)] = true
		blockWords(used, top, inner, b.Body)
	}
}

// flagWord names a flag by its verb, or by its help if several verbs share its
// declaration.
func flagWord(n *kong.Node, f *kong.Flag) string {
	for _, shared := range sharedFlags {
		if f.Help == shared {
			return "flag --" + f.Name
		}
	}
	return verbOf(n) + " --" + f.Name
}

// sharedFlags are the help texts of flags that several verbs have.
var sharedFlags = func() (out []string) {
	out = []string{"Print as JSON."}
	for _, group := range []any{planFlags{}, selectFlags{}, outFlag{}, priceFlag{}} {
		for f := range reflect.TypeOf(group).Fields() {
			out = append(out, f.Tag.Get("help"))
		}
	}
	return out
}()

// TestCommandsOfPagesExist checks the verbs and flags of all command lines in pages.
func TestCommandsOfPagesExist(t *testing.T) {
	t.Parallel()
	top := rootNode(t)
	known := map[string]bool{}
	for _, n := range leaves(t) {
		known[verbOf(n)] = true
	}

	pages := 0
	for _, path := range documents(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}

		text := strings.ReplaceAll(string(data), "\\\n", " ")
		for _, m := range typedCommand.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(m[1])
			node, _, _ := commandOf(top, words)
			if prose := m[0][0] == 'a'; prose && node == top {
				continue
			}
			if !known[verbOf(node)] && node != top && len(words) > 1 || node == top && words[0][0] != '-' {
				t.Errorf("%s: there is no command aicplan %s", path, m[1])
			}
			for _, w := range words {
				name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
				if strings.HasPrefix(w, "--") && name != "help" && name != "version" && name != "" && flagOf(node, name) == nil {
					t.Errorf("%s: aicplan %s: there is no flag --%s", path, m[1], name)
				}
			}
			pages++
		}
	}
	if pages < 100 {
		t.Errorf("only %d command lines", pages)
	}
}

// typedCommand matches command lines in code spans and in fences.
var typedCommand = regexp.MustCompile("(?m)(?:^\\$ |^|`)(?:bin/|\\./bin/)?aicplan ([a-z-][^`|;&\n#<>]*)")

// commandWords adds the verbs and flags of the command lines in a text.
func commandWords(used map[string]bool, top *kong.Node, text string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for _, rest := range strings.Split(text, "aicplan ")[1:] {
		if end := strings.IndexAny(rest, "\n`|;&<"); end >= 0 {
			rest = rest[:end]
		}
		node, open := top, true
		var flags []string
		for _, word := range strings.Fields(rest) {
			at := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word })
			switch {
			case strings.HasPrefix(word, "-"):
				name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
				flags = append(flags, name)
			case at >= 0 && open:
				node = node.Children[at]
				open = len(node.Children) > 0
			}
		}
		if node == top {
			continue
		}
		used["verb "+verbOf(node)] = true
		for _, name := range flags {
			used["flag --"+name] = true
			for _, f := range node.Flags {
				if f.Name == name || f.Short != 0 && string(f.Short) == name {
					used[flagWord(node, f)] = true
				}
			}
		}
	}
}
