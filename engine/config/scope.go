package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
)

// scope is one instance of a module: its declarations and their values.
type scope struct {
	l      *loader
	decl   *moduleDecl
	parent *scope
	call   *blockDecl // the module block; nil for the root
	each   *eachValue // of the module block's for_each
	path   string     // address prefix: "", module.m, module.m["k"].module.n
	source string     // absolute path of the module's files

	memo      map[string]memoized
	children  map[string][]*scope
	instances map[*blockDecl][]*Instance
}

// memoized is a cached value. A value that depends on a stage is stale as soon as another stage has
// finished.
type memoized struct {
	value cty.Value
	uses  *uses
	waits bool
	seen  int // loader.finished when the value was evaluated
}

// eachValue contains the values of each.key and each.value.
type eachValue struct {
	key   string
	value cty.Value // as known when loader.finished was seen
	seen  int
	// from is the scope of the for_each. Parts of value that depend on a stage are evaluated there
	// again.
	from *scope
	expr hcl.Expression
}

// now returns the value with all results known so far.
func (e *eachValue) now() (cty.Value, hcl.Diagnostics) {
	if e.seen == e.from.l.finished || e.value.IsWhollyKnown() {
		return e.value, nil
	}
	e.seen = e.from.l.finished
	if in := e.from.instanceFor(e.expr, e.key); in != nil {
		e.value = e.from.l.instanceValue(in)
		return e.value, nil
	}

	all, diags := e.from.eval(e.expr, nil)
	if diags.HasErrors() || !all.IsKnown() || all.IsNull() {
		return e.value, diags
	}

	for k, v := range all.Elements() {
		if k.Type() == cty.String && k.AsString() == e.key {
			e.value = v
		}
	}

	return e.value, diags
}

// instanceFor returns the stage instance that each.value refers to if for_each names a stage block
// as a whole (for_each = collect.gemm), otherwise nil. Building the values of all instances for
// each instance would take quadratic time.
func (s *scope) instanceFor(expr hcl.Expression, key string) *Instance {
	e, ok := expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(e.Traversal) != 2 {
		return nil
	}

	root, name := named(e.Traversal)
	d := s.stageBlock(root, name)
	if d == nil || d.forEach == nil {
		return nil
	}

	if _, diags := s.instancesOf(d); diags.HasErrors() {
		return nil
	}
	return s.l.byAddr[s.qualify(root+"."+name)+keySuffix(key)]
}

// stageBlock returns the block of a stage, or nil.
func (s *scope) stageBlock(kind, name string) *blockDecl {
	if _, isStage := s.l.kinds[kind]; !isStage {
		return nil
	}
	return s.decl.blocks[kind][name]
}

// frame is one reference under evaluation.
type frame struct {
	id    string
	label string
	rng   hcl.Range
	outer *uses // those of the value that refers to this one
}

func newScope(l *loader, decl *moduleDecl, parent *scope, call *blockDecl, each *eachValue,
	path, source string) *scope {
	return &scope{
		l: l, decl: decl, parent: parent, call: call, each: each, path: path, source: source,
		memo: map[string]memoized{}, children: map[string][]*scope{}, instances: map[*blockDecl][]*Instance{},
	}
}

func (s *scope) qualify(rest string) string {
	if s.path == "" {
		return rest
	}
	return s.path + "." + rest
}

// enter marks a named value as being evaluated. It returns a cycle error if the value is already
// being evaluated.
func (s *scope) enter(label string, rng hcl.Range) hcl.Diagnostics {
	id := s.path + "\x00" + label
	for i, f := range s.l.busy {
		if f.id != id {
			continue
		}
		var steps []string
		for _, g := range s.l.busy[i:] {
			steps = append(steps, fmt.Sprintf("%s (%s)", g.label, shortRange(g.rng)))
		}

		steps = append(steps, s.qualify(label))
		return errorAt(rng, "Cycle",
			"The value depends on itself: %s. Break the circle by naming the shared part in a local of its own.",
			strings.Join(steps, " -> "))
	}

	s.l.busy = append(s.l.busy, frame{id: id, label: s.qualify(label), rng: rng, outer: s.l.uses})
	s.l.uses = newUses()
	return nil
}

// leave ends the evaluation of a named value and returns what it uses.
func (s *scope) leave() *uses {
	last := len(s.l.busy) - 1
	used := s.l.uses
	s.l.uses, s.l.busy = s.l.busy[last].outer, s.l.busy[:last]
	return used
}

// once evaluates a named value and caches it. A failure is cached as a value of unknown type, so
// that it is reported only once.
func (s *scope) once(label string, rng hcl.Range,
	get func() (cty.Value, hcl.Diagnostics)) (cty.Value, hcl.Diagnostics) {
	if m, ok := s.memo[label]; ok && (!m.waits || m.seen == s.l.finished) {
		return m.value, nil
	}
	if diags := s.enter(label, rng); diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	v, diags := get()
	used := s.leave()
	if diags.HasErrors() {
		used.failed = true
		s.memo[label] = memoized{value: cty.DynamicVal, uses: used}
		s.l.failures++
		return cty.DynamicVal, diags
	}

	s.memo[label] = memoized{value: v, uses: used, waits: !v.IsWhollyKnown(), seen: s.l.finished}
	return v, diags
}

func (s *scope) local(name string, rng hcl.Range) (cty.Value, hcl.Diagnostics) {
	a, ok := s.decl.locals[name]
	if !ok {
		return cty.DynamicVal, s.undeclared("local", name, rng, namesOf(s.decl.locals))
	}
	return s.once("local."+name, a.NameRange, func() (cty.Value, hcl.Diagnostics) { return s.eval(a.Expr, nil) })
}

func (s *scope) variable(name string, rng hcl.Range) (cty.Value, hcl.Diagnostics) {
	d, ok := s.decl.variables[name]
	if !ok {
		return cty.DynamicVal, s.undeclared("var", name, rng, namesOf(s.decl.variables))
	}

	return s.once("var."+name, d.rng, func() (cty.Value, hcl.Diagnostics) {
		get := s.argument
		if s.parent == nil {
			get = s.rootVariable
		}

		v, diags := get(d)
		if s.parent == nil && !v.IsKnown() { // it is missing, which was reported
			s.l.uses.failed = true
		}
		if d.sensitive {
			s.l.marks = true
			if _, given := s.l.rootVars[d.name]; given || s.parent != nil {
				s.l.secrets = append(s.l.secrets, stage.SensitiveTexts(v)...)
			}
			v = v.Mark(stage.Sensitive)
		}

		return v, diags
	})
}

// argument returns the value that the module block assigns to a variable.
func (s *scope) argument(d *variableDecl) (cty.Value, hcl.Diagnostics) {
	a, given := s.call.body.Attributes[d.name]
	if !given {
		if !d.hasDefault {
			return cty.DynamicVal, errorAt(s.call.rng(), "Missing module argument",
				"The module needs %q%s.", d.name, descriptionOf(d))
		}
		return d.def, s.validateVariable(d, d.def, d.rng)
	}

	v, diags := s.parent.eval(a.Expr, s.each)
	if diags.HasErrors() {
		return v, diags
	}

	conv, err := d.convert(v)
	if err != nil {
		return cty.DynamicVal, append(diags, errorAt(elementRange(a.Expr, err), "Unsuitable module argument",
			"%s", d.unsuitable(d.name, err))...)
	}

	return conv, append(diags, s.validateVariable(d, conv, a.Expr.Range())...)
}

func descriptionOf(d *variableDecl) string {
	if d.description == "" {
		return ""
	}
	return " (" + d.description + ")"
}

func (s *scope) output(name string, rng hcl.Range) (cty.Value, hcl.Diagnostics) {
	o, ok := s.decl.outputs[name]
	if !ok {
		return cty.DynamicVal, errorAt(rng, "Unknown module output",
			"%s has no output %q.%s", s.path, name, didYouMean(name, namesOf(s.decl.outputs)))
	}
	return s.once("output."+name, o.rng, func() (cty.Value, hcl.Diagnostics) { return s.eval(o.value, nil) })
}

// declared returns a block of the module, or an error if there is none of that name.
func (s *scope) declared(root, name string, rng hcl.Range) (*blockDecl, hcl.Diagnostics) {
	if d, ok := s.decl.blocks[root][name]; ok {
		return d, nil
	}
	return nil, s.undeclared(root, name, rng, namesOf(s.decl.blocks[root]))
}

func (s *scope) undeclared(root, name string, rng hcl.Range, known []string) hcl.Diagnostics {
	what := cmp.Or(map[string]string{"var": "variable", "local": "local value"}[root], root)
	diags := errorAt(rng, "Reference to undeclared "+what,
		"There is no %s.%s in this module.%s", root, name, didYouMean(name, known))
	if s.decl.spoiled[root] {
		diags[0].Extra = follower{}
	}

	return diags
}

// modulesNamed returns the instances of a module block. The first call loads and expands it.
func (s *scope) modulesNamed(d *blockDecl) ([]*scope, hcl.Diagnostics) {
	if c, ok := s.children[d.name]; ok {
		return c, nil
	}
	label := "module." + d.name
	if diags := s.enter(label, d.rng()); diags.HasErrors() {
		return nil, diags
	}

	defer s.leave()
	s.children[d.name] = nil
	decl, source, diags := s.loadChild(d)
	if diags.HasErrors() {
		return nil, diags
	}

	keys, more := s.expand(d)
	diags = append(diags, more...)

	var out []*scope
	for _, each := range keys {
		path := s.qualify(label)
		if each != nil {
			path += keySuffix(each.key)
		}
		out = append(out, newScope(s.l, decl, s, d, each, path, source))
	}
	s.children[d.name] = out
	if len(out) > 0 {
		diags = append(diags, out[0].checkArguments()...)
	}

	return out, diags
}

// loadChild reads the module that a module block refers to. The source must be known before
// anything runs: it may use variables and locals, but not stages.
func (s *scope) loadChild(d *blockDecl) (*moduleDecl, string, hcl.Diagnostics) {
	a, ok := d.body.Attributes["source"]
	if !ok {
		at, hint := d.rng(), ""
		if near := textutil.Nearest("source", namesOf(d.body.Attributes)); near != "" {
			at, hint = d.body.Attributes[near].Range(), fmt.Sprintf(" Did you mean it by %q?", near)
		}
		return nil, "", errorAt(at, "Missing source",
			`A module block names the folder or file of its module: source = "./modules/gemm".%s`, hint)
	}

	v, diags := s.eval(a.Expr, nil)
	if diags = append(diags, shown(v, "source", a.Expr)...); diags.HasErrors() {
		return nil, "", diags
	}

	if !stage.IsText(v) {
		return nil, "", errorAt(a.Expr.Range(), "Invalid source",
			"The source must be a string that is known before anything runs.")
	}

	source := v.AsString()
	if !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		return nil, "", errorAt(a.Expr.Range(), "Invalid source",
			"%q is not a local path: it must start with ./ or ../ and is relative to the file that it stands in.", source)
	}

	abs := filepath.Join(d.dir, source)
	for up := s; up != nil; up = up.parent {
		if up.source == abs {
			return nil, "", errorAt(a.Expr.Range(), "Module includes itself",
				"%s is included by itself, by way of %s.", display(abs), s.qualify("module."+d.name))
		}
	}

	if !slices.Contains(d.sources, abs) {
		d.sources = append(d.sources, abs)
	}
	if decl, ok := s.l.modules[abs]; ok {
		return decl, abs, diags
	}

	decl, more := s.l.loadModule(abs)
	if decl == nil {
		more = errorAt(a.Expr.Range(), "Cannot read the module",
			"%s: %s", display(abs), more[0].Detail)
	}

	diags = append(diags, more...)
	if !more.HasErrors() {
		s.l.modules[abs] = decl
	}

	return decl, abs, diags
}

// checkArguments reports arguments that the module does not declare.
func (s *scope) checkArguments() hcl.Diagnostics {
	var diags hcl.Diagnostics
	for name, a := range s.call.body.Attributes {
		if name == "source" {
			continue
		}
		if _, ok := s.decl.variables[name]; !ok {
			stage.AddError(&diags, a.NameRange, "Unknown module argument",
				"The module has no variable %q.%s", name, didYouMean(name, namesOf(s.decl.variables)))
		}
	}

	for _, b := range s.call.body.Blocks {
		stage.AddError(&diags, b.TypeRange, "Unexpected block", "A module block contains arguments only.")
	}

	return byPlace(diags)
}

func namesOf[T any](m map[string]T) []string {
	return slices.Collect(maps.Keys(m))
}

func keySuffix(key string) string { return fmt.Sprintf("[%q]", key) }
