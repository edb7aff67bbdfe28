// Package plantest runs plan test files. A test assigns values to variables and states the expected
// result of the plan: its cases, its reasons and its errors. Nothing is measured, and no state
// folder is read.
package plantest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"aicplan/engine/config"
	"aicplan/engine/stage"
	"aicplan/sink/base/fileutil"
)

// File is one test file.
type File struct {
	Path string // path as given
	Runs []*Run

	name string // name that diagnostics show
	hcl  *hcl.File
}

// Run is one test: a plan with values for its variables, and the expected result.
type Run struct {
	Name  string
	Range hcl.Range

	given   map[string]*hcl.Attribute
	shared  map[string]*hcl.Attribute // values that the file assigns in all runs
	path    string                    // path of the plan
	inline  *hclsyntax.Body           // the plan, if the run contains it; otherwise nil
	body    runBody
	errors  []expectedDiag
	asserts []assertBody
	expects []expectation
}

type runBody struct {
	// Description is text for readers.
	Description string `hcl:"description,optional"`
	// Plan (string) is the plan file or folder, relative to the test file. The default is the folder of the test file.
	Plan hcl.Expression `hcl:"plan,optional"`
	// ExitCode is the expected exit code of `plan --detailed-exitcode`: 0, 1 or 2. If it is not set, it is not checked.
	ExitCode *int     `hcl:"exit_code,optional"`
	Rest     hcl.Body `hcl:",remain"`
}

type assertBody struct {
	// Condition is an expression that must be true.
	Condition hcl.Expression `hcl:"condition"`
	// ErrorMessage (string) explains why it must be true.
	ErrorMessage hcl.Expression `hcl:"error_message"`
}

type expectBody struct {
	// Exists is false if the plan must not have the stage. The default is true.
	Exists *bool `hcl:"exists,optional"`
	// Action is "collect", "ready", "run", "unknown" or "needs".
	Action *string `hcl:"action,optional"`
	// Declared is the number of combinations of a grid before its filters.
	Declared *int64 `hcl:"declared,optional"`
	// Cases is the number of cases.
	Cases *int64 `hcl:"cases,optional"`
	// Rows is the number of rows: more than cases if the grid has sweeps.
	Rows *int64 `hcl:"rows,optional"`
	// Drops has the number of combinations that filters drop, by their names or reasons: `{ square = 4 }`.
	Drops map[string]int `hcl:"drops,optional"`
	// Collect is the number of cases that a collect has to measure.
	Collect *int64 `hcl:"collect,optional"`
}

type expectation struct {
	expectBody
	address string
	block   *hclsyntax.Block
}

type diagBody struct {
	// Text is a part of the message.
	Text string `hcl:"text"`
	// At is the place of the error, as FILE or FILE:LINE.
	At string `hcl:"at,optional"`
}

type expectedDiag struct {
	diagBody
	rng hcl.Range
}

// Words returns the names allowed in the blocks of a test file, by block type.
func Words() stage.Vocabulary {
	out := stage.Vocabulary{}
	for block, body := range map[string]any{"run": runBody{}, "assert": assertBody{}, "expect": expectBody{},
		"expect_error": diagBody{}} {
		out[block] = stage.TagWords(body)[""]
	}

	out["run"] = append(out["run"], runBlocks...)
	return out
}

var runBlocks = []string{
	// variables (block) has values for the plan's variables. Variables of the environment are ignored.
	"variables",
	// plan (block) is the plan itself, instead of a path.
	"plan",
	// assert (blocks) checks an expression.
	"assert",
	// expect (blocks) is labelled with the address of a stage and checks its counts.
	"expect",
	// expect_error (blocks) is an error that the plan must report. An error that no block expects fails the run.
	"expect_error",
}

var fileSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "variables"}, {Type: "run", LabelNames: []string{"name"}},
}}

// Find returns the test files at paths, sorted and without duplicates. A file is returned as given;
// a folder is searched recursively for files that end in .aictest.hcl.
func Find(paths []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		files, err := fileutil.Below(p, config.TestSuffix)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if !strings.HasSuffix(f, config.TestSuffix) { // the path itself
				return nil, fmt.Errorf("%s is no file of tests: their names end in %s", f, config.TestSuffix)
			}
		}
		out = append(out, files...)
	}

	slices.Sort(out)
	return slices.Compact(out), nil
}

// Open parses a test file. It also returns the parsed files by name, for snippets in diagnostics.
func Open(path string) (*File, map[string]*hcl.File, hcl.Diagnostics) {
	parsed, diags := config.ParseFile(path)
	if parsed == nil || diags.HasErrors() {
		return nil, nil, diags
	}

	body := parsed.Body.(*hclsyntax.Body)
	f := &File{Path: path, hcl: parsed, name: body.SrcRange.Filename}
	files := map[string]*hcl.File{f.name: parsed}
	content, more := body.Content(fileSchema)
	diags = append(diags, more...)

	shared := map[string]*hcl.Attribute{}
	seen := map[string]hcl.Range{}
	for _, b := range content.Blocks {
		if b.Type == "variables" {
			diags = append(diags, values(b.Body, shared)...)
			continue
		}

		r := &Run{Name: b.Labels[0], Range: b.DefRange, given: map[string]*hcl.Attribute{}, shared: shared}
		if strings.TrimSpace(r.Name) == "" {
			stage.AddError(&diags, r.Range, "Run without a name", `The label is what the run tests: run "one model" { ... }.`)
		}
		diags = append(diags, r.decode(f, b.Body.(*hclsyntax.Body))...)
		if old, dup := seen[r.Name]; dup {
			stage.AddError(&diags, r.Range, "Duplicate run",
				"There is a run %q at %s:%d already.", r.Name, old.Filename, old.Start.Line)
		}

		seen[r.Name] = r.Range
		f.Runs = append(f.Runs, r)
	}

	if len(f.Runs) == 0 && !diags.HasErrors() {
		stage.AddError(&diags, body.SrcRange, "No tests",
			`The file has no run block, so it tests nothing. Write one: run "NAME" { ... }.`)
	}

	return f, files, diags
}

// values adds the attributes of a variables block to into.
func values(body hcl.Body, into map[string]*hcl.Attribute) hcl.Diagnostics {
	attributes, diags := body.JustAttributes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if into[name] != nil {
			stage.AddError(&diags, attributes[name].NameRange, "Duplicate value", "%s has a value already.", name)
		}
		into[name] = attributes[name]
	}
	return diags
}

// decode reads the body of a run block.
func (r *Run) decode(f *File, body *hclsyntax.Body) hcl.Diagnostics {
	// Nested blocks are not decoded by gohcl, because a plan block may contain any plan text.
	flat := *body
	flat.Blocks = nil

	diags := gohcl.DecodeBody(&flat, nil, &r.body)
	for name, a := range body.Attributes {
		if known := stage.TagWords(runBody{})[""]; !slices.Contains(known, name) {
			stage.AddError(&diags, a.NameRange, "Unsupported argument",
				"A run has no attribute %q.%s", name,
				stage.DidYouMean(name, append(known, runBlocks...)))
		}
	}

	for _, n := range body.Blocks {
		diags = append(diags, r.block(n)...)
	}

	return append(diags, r.planOf(f, body.Attributes["plan"])...)
}

// block reads one nested block of a run.
func (r *Run) block(b *hclsyntax.Block) hcl.Diagnostics {
	if !slices.Contains(runBlocks, b.Type) {
		return errorAt(b.TypeRange, "Unknown block",
			"A run has no block %q.%s", b.Type, stage.DidYouMean(b.Type, runBlocks))
	}
	if len(b.Labels) > 0 && b.Type != "expect" {
		return errorAt(b.LabelRanges[0], "Unexpected label",
			"A block %s of a run has no label.", b.Type)
	}

	switch b.Type {
	case "variables":
		return values(b.Body, r.given)

	case "plan":
		if r.inline != nil {
			return errorAt(b.DefRange(), "Duplicate plan", "A run is about one plan.")
		}
		r.inline = b.Body
		return nil

	case "assert":
		var a assertBody
		diags := config.Required(b.Body, "condition", "error_message")
		diags = append(diags, gohcl.DecodeBody(b.Body, nil, &a)...)
		r.asserts = append(r.asserts, a)
		return diags

	case "expect":
		if len(b.Labels) != 1 {
			return errorAt(b.DefRange(), "Wrong number of labels",
				`An expect block has one label, the address of a stage: expect "grid.gemm" { cases = 4 }`)
		}
		e := expectation{address: b.Labels[0], block: b}
		ctx := &hcl.EvalContext{Functions: config.Functions()}
		diags := gohcl.DecodeBody(b.Body, ctx, &e.expectBody)
		for _, name := range slices.Sorted(maps.Keys(b.Body.Attributes)) {
			a := b.Body.Attributes[name]
			if v, more := a.Expr.Value(ctx); !more.HasErrors() && v.IsNull() {
				stage.AddError(&diags, a.SrcRange, "Nothing expected", "%s is null, which tests nothing.", name)
			}
		}
		if len(b.Body.Attributes) == 0 {
			stage.AddError(&diags, b.DefRange(), "Nothing expected",
				"An expect block without attributes tests nothing. Write cases = 4, or exists = true.")
		}

		r.expects = append(r.expects, e)
		return diags

	default: // expect_error
		d := expectedDiag{rng: b.DefRange()}
		diags := gohcl.DecodeBody(b.Body, &hcl.EvalContext{Functions: config.Functions()}, &d.diagBody)
		if strings.TrimSpace(d.Text) == "" && !diags.HasErrors() {
			stage.AddError(&diags, b.DefRange(), "Nothing expected", "text is a part of the message.")
		}

		r.errors = append(r.errors, d)
		return diags
	}
}

// planOf determines the plan of a run: the inline plan, the file or folder in its plan attribute,
// or the folder of the test file.
func (r *Run) planOf(f *File, a *hclsyntax.Attribute) hcl.Diagnostics {
	switch {
	case a != nil && r.inline != nil:
		return errorAt(a.SrcRange, "Two plans", "A run names a plan or contains one.")
	case r.inline != nil:
		r.path = f.Path
		return nil

	case a == nil:
		r.path = filepath.Dir(f.Path)
		return nil
	}

	var path string
	if diags := gohcl.DecodeExpression(a.Expr, &hcl.EvalContext{Functions: config.Functions()},
		&path); diags.HasErrors() {
		return diags
	}

	r.path = filepath.Join(filepath.Dir(f.Path), path)
	if _, err := os.Stat(r.path); err != nil {
		return errorAt(a.Expr.Range(), "No such plan",
			"There is no %s. A plan is a file or a folder, relative to the file of tests.", r.path)
	}

	return nil
}

func errorAt(at hcl.Range, summary, format string, args ...any) hcl.Diagnostics {
	return stage.ErrorAt(at, summary, format, args...)
}
