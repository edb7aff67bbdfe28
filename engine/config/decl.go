package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// moduleDecl contains the declarations of a folder or file: names, ranges and unevaluated bodies.
type moduleDecl struct {
	dir       string
	files     map[string]bool // absolute paths of the files, included ones among them
	variables map[string]*variableDecl
	locals    map[string]*hclsyntax.Attribute
	outputs   map[string]*outputDecl
	blocks    map[string]map[string]*blockDecl // modules, systems, runtimes, parts, services and stages: type -> name
	order     []*blockDecl                     // stages and modules in source order
	// spoiled are the block types of which at least one block has an invalid header. Names of that
	// type may be declared by such a block.
	spoiled  map[string]bool
	outOrder []string
	varOrder []string
}

// blockDecl is a stage, module call, system, runtime, part or service block.
type blockDecl struct {
	kind, name string
	dir        string // folder of the file
	block      *hclsyntax.Block
	body       *hclsyntax.Body // without the expressions below
	forEach    hcl.Expression
	dependsOn  hcl.Expression
	enabled    hcl.Expression
	describe   hcl.Expression
	sources    []string // absolute paths that the source of a module block evaluated to
}

func (b *blockDecl) rng() hcl.Range { return b.block.DefRange() }

type variableDecl struct {
	name        string
	rng         hcl.Range
	typ         cty.Type
	defaults    *typeexpr.Defaults
	broken      bool // the type is invalid, or the value was given incorrectly
	hasDefault  bool
	def         cty.Value
	written     hcl.Expression // the default as an expression, or nil
	description string
	sensitive   bool
	validations []validationDecl
}

type validationDecl struct {
	// Condition is true for a good value; it uses `var.NAME`.
	Condition hcl.Expression `hcl:"condition"`
	// ErrorMessage (string) is the error for a value that does not meet the condition.
	ErrorMessage hcl.Expression `hcl:"error_message"`
}

type outputDecl struct {
	rng   hcl.Range
	value hcl.Expression
}

// loadRoot reads the declarations of the plan.
func (l *loader) loadRoot(path string) (*moduleDecl, hcl.Diagnostics) {
	if l.opts.Inline == nil {
		return l.loadModule(path)
	}
	return l.declareAll(filepath.Dir(path), []string{path}, []*hclsyntax.Body{l.opts.Inline}, nil)
}

// loadModule reads the declarations of one module.
func (l *loader) loadModule(path string) (*moduleDecl, hcl.Diagnostics) {
	dir := path
	files, err := planFiles(path)
	if err != nil {
		return nil, errorAt(startOf(display(path)), "Cannot read the plan", "%s.%s", reason(err), besides(path, err))
	}

	if len(files) == 1 && files[0] == path {
		dir = filepath.Dir(path)
	}

	var bodies []*hclsyntax.Body
	var diags hcl.Diagnostics
	for _, f := range files {
		parsed, more := l.src.file(f)
		diags = append(diags, more...)
		l.unreadable = l.unreadable || more.HasErrors()
		if parsed != nil && parsed.Body != nil {
			bodies = append(bodies, syntaxBody(parsed))
		}
	}

	m, diags := l.declareAll(dir, files, bodies, diags)
	twice := 0
	for _, d := range diags {
		if strings.HasPrefix(d.Summary, "Duplicate ") {
			twice++
		}
	}

	if len(files) > 1 && twice >= manyDuplicates {
		l.unreadable = true // other errors are consequences
		diags = errorAt(startOf(display(path)), "Several plans",
			"The files of %s declare %d names twice, so that they are not one plan. Name one of its %d files, such as %s.",
			display(path), twice, len(files), display(files[0]))
	}

	return m, diags
}

// manyDuplicates is the number of names declared twice from which the files of a folder are several plans.
const manyDuplicates = 4

// declareAll reads the declarations of a module from its files and their bodies.
func (l *loader) declareAll(dir string, files []string, bodies []*hclsyntax.Body,
	diags hcl.Diagnostics) (*moduleDecl, hcl.Diagnostics) {
	m := &moduleDecl{
		dir:       dir,
		files:     map[string]bool{},
		spoiled:   map[string]bool{},
		variables: map[string]*variableDecl{},
		locals:    map[string]*hclsyntax.Attribute{},
		outputs:   map[string]*outputDecl{},
		blocks:    map[string]map[string]*blockDecl{},
	}

	for _, f := range files {
		m.files[f] = true
	}
	for _, b := range bodies {
		diags = append(diags, l.declare(m, dir, b)...)
	}

	return m, diags
}

// declare reads the declarations of one file, which is in dir, and of the files that it includes.
func (l *loader) declare(m *moduleDecl, dir string, body *hclsyntax.Body) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for name, a := range body.Attributes {
		if name == "include" || l.unreadable { // a missing brace moves attributes to the top level
			continue
		}
		stage.AddError(&diags, a.NameRange, "Unexpected attribute",
			"A plan consists of blocks; put %q into a locals block to name a value.", name)
	}

	for _, b := range body.Blocks {
		diags = append(diags, l.declareBlock(m, dir, b)...)
	}

	if a := body.Attributes["include"]; a != nil {
		diags = append(diags, l.include(m, dir, a.Expr)...)
	}

	return diags
}

// include reads the declarations of further files, whose names are relative to dir. A file that is
// included twice counts once.
func (l *loader) include(m *moduleDecl, dir string, e hcl.Expression) hcl.Diagnostics {
	names, notList := hcl.ExprList(e)
	if notList.HasErrors() {
		return errorAt(e.Range(), "Invalid include",
			`A plan includes a list of files: include = ["shared/inputs.hcl"].`)
	}

	var diags hcl.Diagnostics
	for _, n := range names {
		var name string
		if gohcl.DecodeExpression(n, nil, &name).HasErrors() {
			stage.AddError(&diags, n.Range(), "Invalid include",
				"The name of an included file is a text without variables and locals.")
			continue
		}

		path := filepath.Join(dir, name)
		if m.files[path] {
			continue
		}
		m.files[path] = true

		parsed, more := l.src.file(path)
		if parsed == nil && len(more) == 1 && more[0].Summary == "Cannot read the file" {
			_, err := os.Stat(path)
			more = errorAt(n.Range(), "Cannot read the included file",
				"%s: %s%s The name is relative to the folder of this file.", display(path), more[0].Detail, besides(path, err))
		}

		diags = append(diags, more...)
		l.unreadable = l.unreadable || more.HasErrors()
		if parsed != nil && parsed.Body != nil {
			diags = append(diags, l.declare(m, filepath.Dir(path), syntaxBody(parsed))...)
		}
	}

	return diags
}

// innerBlocks maps block types that users may write at the top level by mistake to the blocks that
// contain them.
var innerBlocks = map[string]string{
	"axis": "a grid", "filter": "a grid", "derive": "a grid",
	"check": "a gate or a preflight", "assert": "a gate",
	"measure": "a collect", "bind": "a collect", "load": "a collect", "validation": "a variable",
}

func (l *loader) declareBlock(m *moduleDecl, dir string, b *hclsyntax.Block) hcl.Diagnostics {
	switch b.Type {
	case "locals":
		return declareLocals(m, b)
	case "variable":
		return l.declareVariable(m, b)
	case "output":
		return declareOutput(m, b)
	case "table":
		return l.declareTable(b)
	}
	types := slices.Concat(namesOf(l.kinds), namesOf(l.services),
		[]string{"variable", "locals", "output", "module", "system", "runtime", "part", "table"})
	if !slices.Contains(types, b.Type) {
		near := didYouMean(b.Type, types)
		if meant := textutil.Nearest(b.Type, types); meant != "" {
			m.spoiled[meant] = true
		} else {
			near = " The blocks of a plan are " + strings.Join(slices.Sorted(slices.Values(types)), ", ") + "."
		}

		if l.unreadable {
			return nil // a stray brace moves blocks to the top level; the syntax error is already reported
		}
		if in := innerBlocks[b.Type]; in != "" {
			near = fmt.Sprintf(" It stands inside of %s.", in)
		}

		return errorAt(b.TypeRange, "Unknown block",
			"There is no block type %q.%s", b.Type, near)
	}

	name, diags := oneLabel(b)
	if diags.HasErrors() {
		m.spoiled[b.Type] = true
		return diags
	}

	_, isStage := l.kinds[b.Type]
	repeats := isStage || b.Type == "module"
	if a := b.Body.Attributes["for_each"]; a != nil && !repeats {
		m.spoiled[b.Type] = true
		return append(diags, errorAt(a.NameRange, "Unsupported argument",
			"A %s block makes one instance. Put it into a module, and give for_each to the module.", b.Type)...)
	}

	d := &blockDecl{kind: b.Type, name: name, dir: dir, block: b, body: b.Body}
	if old, dup := m.blocks[b.Type][name]; dup {
		return append(diags, errorAt(b.DefRange(), "Duplicate "+b.Type,
			"%s.%s is declared already at %s; names must be unique in a module.", b.Type, name,
			shortRange(old.rng()))...)
	}

	if m.blocks[b.Type] == nil {
		m.blocks[b.Type] = map[string]*blockDecl{}
	}

	m.blocks[b.Type][name] = d
	if repeats {
		d.splitMeta()
		m.order = append(m.order, d)
	}

	return diags
}

// splitMeta separates the meta arguments from a stage or module body, so that the schemas of stages
// do not need to list them.
func (b *blockDecl) splitMeta() {
	rest := *b.body
	rest.Attributes = maps.Clone(rest.Attributes)
	b.body = &rest

	for name, to := range map[string]*hcl.Expression{"for_each": &b.forEach, "depends_on": &b.dependsOn,
		"enabled": &b.enabled, "description": &b.describe} {
		if a := rest.Attributes[name]; a != nil {
			*to = a.Expr
			delete(rest.Attributes, name)
		}
	}
}

func declareLocals(m *moduleDecl, b *hclsyntax.Block) hcl.Diagnostics {
	diags := noLabels(b)
	for _, nested := range b.Body.Blocks {
		stage.AddError(&diags, nested.TypeRange, "Unexpected block", "A locals block contains attributes only.")
	}

	for name, a := range b.Body.Attributes {
		if old, dup := m.locals[name]; dup {
			stage.AddError(&diags, a.NameRange, "Duplicate local",
				"local.%s is declared already at %s.", name, shortRange(old.SrcRange))
			continue
		}
		m.locals[name] = a
	}

	return diags
}

type variableBody struct {
	// Type (type) is a type constraint, see below. The default is the type of default, if that is a string, number,
	// bool or a list of one of them, else any.
	Type *hcl.Attribute `hcl:"type,optional"`
	// Default (any) is a constant. Without it, a value must be given.
	Default *hcl.Attribute `hcl:"default,optional"`
	// Description is shown by `aicplan describe` and in errors about a missing value. The default is the comment
	// after the block or, if there is none, the lines of comment directly above it.
	Description string `hcl:"description,optional"`
	// Sensitive (bool) marks a secret, see below. The default is false.
	Sensitive bool `hcl:"sensitive,optional"`
	// Validation (blocks) checks the value.
	Validation []validationDecl `hcl:"validation,block"`
}

func (l *loader) declareVariable(m *moduleDecl, b *hclsyntax.Block) hcl.Diagnostics {
	name, diags := oneLabel(b)
	if diags.HasErrors() {
		return diags
	}

	v := &variableDecl{name: name, rng: b.DefRange(), typ: cty.DynamicPseudoType}
	if old, dup := m.variables[name]; dup {
		return append(diags, errorAt(b.DefRange(), "Duplicate variable",
			"var.%s is declared already at %s.", name, shortRange(old.rng))...)
	}

	body := variableBody{Description: l.src.comment(b)}
	more := gohcl.DecodeBody(b.Body, nil, &body) // reports attributes in random order
	for _, nested := range b.Body.Blocks {
		if nested.Type == "validation" {
			more = append(more, Required(nested.Body, "condition", "error_message")...)
		}
	}
	diags = append(diags, byPlace(more)...)
	v.description, v.sensitive, v.validations = body.Description, body.Sensitive, body.Validation

	if body.Type != nil {
		t, defaults, more := typeexpr.TypeConstraintWithDefaults(body.Type.Expr)
		diags = append(diags, more...)
		if !more.HasErrors() {
			v.typ, v.defaults = t, defaults
		}
		v.broken = more.HasErrors()
	}

	if a := body.Default; a != nil {
		v.written = a.Expr
		v.def, v.hasDefault = cty.UnknownVal(v.typ), true // avoids a second error if the default is invalid
		val, more := a.Expr.Value(&hcl.EvalContext{Functions: Functions()})
		diags = append(diags, more...)
		if !more.HasErrors() {
			if body.Type == nil {
				v.typ = typeOf(val)
			}
			val, err := v.convert(val)
			if err != nil {
				stage.AddError(&diags, elementRange(a.Expr, err), "Unsuitable default",
					"%s", v.unsuitable("The default of var."+name, err))
			} else {
				v.def = val
			}
		}
	}

	m.variables[name] = v
	m.varOrder = append(m.varOrder, name)
	return diags
}

// typeOf returns the type of a variable that declares none: that of a default that is a string, number, bool or a
// list of one of them, else any.
func typeOf(def cty.Value) cty.Type {
	t := def.Type()
	if t.IsPrimitiveType() {
		return t
	}
	if t.IsTupleType() && t.Length() > 0 && t.TupleElementType(0).IsPrimitiveType() {
		first := t.TupleElementType(0)
		if !slices.ContainsFunc(t.TupleElementTypes(), func(other cty.Type) bool { return other != first }) {
			return cty.List(first)
		}
	}
	return cty.DynamicPseudoType
}

func declareOutput(m *moduleDecl, b *hclsyntax.Block) hcl.Diagnostics {
	name, diags := oneLabel(b)
	if diags.HasErrors() {
		return diags
	}

	var body struct {
		Value       hcl.Expression `hcl:"value"`
		Description string         `hcl:"description,optional"`
	}

	diags = append(diags, Required(b.Body, "value")...)
	diags = append(diags, gohcl.DecodeBody(b.Body, nil, &body)...)
	if old, dup := m.outputs[name]; dup {
		return append(diags, errorAt(b.DefRange(), "Duplicate output",
			"output.%s is declared already at %s.", name, shortRange(old.rng))...)
	}

	m.outputs[name] = &outputDecl{rng: b.DefRange(), value: body.Value}
	m.outOrder = append(m.outOrder, name)
	return diags
}

// Required reports missing attributes. gohcl does not: it decodes a missing attribute as a null
// expression.
func Required(body *hclsyntax.Body, names ...string) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, name := range names {
		if _, ok := body.Attributes[name]; !ok {
			stage.AddError(&diags, body.MissingItemRange(), "Missing required argument",
				"The argument %q is required, but no definition was found.", name)
		}
	}

	return diags
}

func oneLabel(b *hclsyntax.Block) (string, hcl.Diagnostics) {
	if len(b.Labels) != 1 {
		return "", errorAt(b.DefRange(), "Wrong number of labels",
			"A block %s has exactly one label, its name: %s \"name\" { ... }", b.Type, b.Type)
	}
	if name := b.Labels[0]; !hclsyntax.ValidIdentifier(name) {
		return "", errorAt(b.LabelRanges[0], "Invalid name",
			"%q cannot be referred to: a name starts with a letter and contains letters, digits, _ and -.",
			name)
	}

	return b.Labels[0], nil
}

func noLabels(b *hclsyntax.Block) hcl.Diagnostics {
	if len(b.Labels) == 0 {
		return nil
	}
	return errorAt(b.LabelRanges[0], "Unexpected label", "A block %s has no label.", b.Type)
}
