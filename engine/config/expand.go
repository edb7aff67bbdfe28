package config

import (
	"slices"

	"aicplan/engine/stage"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// expand returns the values of for_each for the instances of a block: nil for the only instance of a block without it.
// A disabled block has none. A for_each item whose value is a disabled stage is skipped.
func (s *scope) expand(d *blockDecl) ([]*eachValue, hcl.Diagnostics) {
	if d.enabled != nil {
		on, diags := s.enabled(d)
		if diags.HasErrors() || !on {
			return nil, diags
		}
	}

	if d.forEach == nil {
		return []*eachValue{nil}, nil
	}

	v, diags := s.eval(d.forEach, nil)
	if diags = append(diags, shown(v, "for_each", d.forEach)...); diags.HasErrors() {
		return nil, diags
	}

	keys, more := s.forEachKeys(d, v)
	disabled := func(e *eachValue) bool { return e.value.IsKnown() && e.value.IsNull() }
	return slices.DeleteFunc(keys, disabled), append(diags, more...)
}

func (s *scope) enabled(d *blockDecl) (bool, hcl.Diagnostics) {
	v, diags := s.eval(d.enabled, nil)
	if diags = append(diags, shown(v, "enabled", d.enabled)...); diags.HasErrors() {
		return false, diags
	}
	if !v.IsKnown() && s.l.failures > 0 {
		return false, diags // a consequence of an error that is already reported
	}

	if !v.IsKnown() {
		return false, append(diags, errorAt(
			d.enabled.Range(),
			"enabled depends on a stage",
			"Whether a stage is part of the plan must be known before anything runs; use variables, locals and systems only.",
		)...)
	}
	if v.IsNull() || v.Type() != cty.Bool {
		return false, append(diags, errorAt(d.enabled.Range(), "Invalid enabled", "true or false is needed.")...)
	}

	return v.True(), diags
}

// instancesOf returns the instances of a stage block. The first call expands the block.
func (s *scope) instancesOf(d *blockDecl) ([]*Instance, hcl.Diagnostics) {
	if ins, ok := s.instances[d]; ok {
		return ins, nil
	}
	label := d.kind + "." + d.name
	if diags := s.enter(label, d.rng()); diags.HasErrors() {
		return nil, diags
	}

	defer s.leave()

	out := []*Instance{}
	keys, diags := s.expand(d)
	for _, each := range keys {
		in := &Instance{
			Address: s.qualify(label), Kind: s.l.kinds[d.kind], Name: d.name, Range: d.rng(),
			scope: s, decl: d, each: each,
		}
		if each != nil {
			in.Key = each.key
			in.Address += keySuffix(in.Key)
		}

		if d.describe != nil {
			v, more := s.eval(d.describe, each)
			more = append(more, shown(v, "description", d.describe)...)
			diags = append(diags, more...)
			if !more.HasErrors() && stage.IsText(v) {
				in.Description = v.AsString()
			}
		}

		if !s.inputDisabled(d, each) {
			out = append(out, in)
			s.l.byAddr[in.Address] = in
		}
	}

	s.instances[d] = out
	return out, diags
}

// inputDisabled reports whether an attribute refers directly to a disabled stage: disabling a grid
// disables the stages that depend on it.
func (s *scope) inputDisabled(d *blockDecl, each *eachValue) bool {
	for _, name := range sortedKeys(d.body.Attributes) {
		expr := d.body.Attributes[name].Expr
		refs, diags := s.references(expr, each, nil)
		if len(refs) != 1 || len(diags) > 0 || !isReference(expr) {
			continue
		}

		if s.refDisabled(refs[0]) {
			return true
		}
	}
	return false
}

// refDisabled reports whether a reference is to a disabled stage, or to the output of a module that is one.
func (s *scope) refDisabled(r ref) bool {
	if r.root == "module" {
		d, ok := s.decl.blocks["module"][r.name]
		if !ok || r.attr == "" {
			return false
		}

		children, diags := s.modulesNamed(d)
		if diags.HasErrors() {
			return false
		}

		for _, c := range s.referred(r) {
			v, more := c.output(r.attr, r.rng)
			return !more.HasErrors() && v.IsKnown() && v.IsNull()
		}

		return len(children) == 0 && d.enabled != nil
	}
	target := s.stageBlock(r.root, r.name)
	if target == nil {
		return false
	}

	ins, diags := s.instancesOf(target)
	if diags.HasErrors() {
		return false
	}
	if r.key == nil {
		return len(ins) == 0 && target.forEach == nil
	}

	// An undeclared key is an error that is reported elsewhere, not a disabled instance.
	return s.l.byAddr[s.qualify(r.root+"."+r.name)+keySuffix(*r.key)] == nil && s.keyDeclared(target, *r.key)
}

// keyDeclared reports whether a for_each contains key, even if that instance is disabled.
func (s *scope) keyDeclared(d *blockDecl, key string) bool {
	if d.forEach == nil {
		return false
	}
	v, diags := s.eval(d.forEach, nil)
	if diags.HasErrors() || v.ContainsMarked() {
		return false
	}

	keys, diags := s.forEachKeys(d, v)
	return !diags.HasErrors() && slices.ContainsFunc(keys, func(e *eachValue) bool { return e.key == key })
}

// evaluateAll evaluates everything that is known before a run, so that one load reports as many
// errors as possible.
func (s *scope) evaluateAll() hcl.Diagnostics {
	var diags hcl.Diagnostics
	add := func(_ any, more hcl.Diagnostics) { diags = append(diags, more...) }
	eval := func(root, name string, at hcl.Range) {
		v, more := s.value(ref{root: root, name: name, rng: at}, nil)
		add(v, more)
	}

	for _, name := range s.decl.varOrder {
		eval("var", name, s.decl.variables[name].rng)
	}

	for _, name := range sortedKeys(s.decl.locals) {
		eval("local", name, s.decl.locals[name].NameRange)
	}

	roots := []string{"system", "runtime"}
	for _, k := range s.l.opts.Services {
		roots = append(roots, k.Name)
	}

	for _, root := range append(roots, "part") {
		for _, name := range sortedKeys(s.decl.blocks[root]) {
			eval(root, name, s.decl.blocks[root][name].rng())
		}
	}

	for _, d := range s.decl.order {
		if d.kind != "module" {
			ins, more := s.instancesOf(d)
			add(ins, more)
			continue
		}
		children, more := s.modulesNamed(d)
		add(children, more)

		for _, c := range children {
			diags = append(diags, c.evaluateAll()...)
			if d.dependsOn != nil {
				diags = append(diags, waits{s, d.dependsOn, c.each}.add(newUses())...)
			}
		}
	}

	for _, name := range s.decl.outOrder {
		v, more := s.output(name, s.decl.outputs[name].rng)
		add(v, more)
	}

	return diags
}

// all returns this module and its child modules, in source order.
func (s *scope) all() []*scope {
	out := []*scope{s}
	for _, d := range s.decl.order {
		if d.kind == "module" {
			for _, c := range s.children[d.name] {
				out = append(out, c.all()...)
			}
		}
	}
	return out
}

// allInstances returns the stage instances of this module and its child modules in source order.
func (s *scope) allInstances() []*Instance {
	var out []*Instance
	for _, d := range s.decl.order {
		if d.kind != "module" {
			out = append(out, s.instances[d]...)
			continue
		}

		for _, c := range s.children[d.name] {
			out = append(out, c.allInstances()...)
		}
	}

	return out
}
