package config

import (
	"fmt"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// expansion is one instance to be made of a block; each is nil without
// for_each.
type expansion struct{ each *eachValue }

// expand says which instances a block has. A block that is not enabled has
// none, and neither has one whose input is a disabled stage.
func (s *scope) expand(d *blockDecl) ([]expansion, hcl.Diagnostics) {
	if d.enabled != nil {
		on, diags := s.enabled(d)
		if diags.HasErrors() || !on {
			return nil, diags
		}
	}
	if d.forEach == nil {
		return []expansion{{}}, nil
	}
	v, diags := s.eval(d.forEach, nil)
	if diags.HasErrors() {
		return nil, diags
	}
	keys, more := s.forEachKeys(d, v)
	diags = append(diags, more...)
	var out []expansion
	for _, k := range keys {
		e := &eachValue{key: k.key, value: k.value, seen: s.l.finished, from: s, expr: d.forEach}
		if e.value.IsKnown() && e.value.IsNull() {
			continue // a disabled stage
		}
		out = append(out, expansion{each: e})
	}
	return out, diags
}

func (s *scope) enabled(d *blockDecl) (bool, hcl.Diagnostics) {
	v, diags := s.eval(d.enabled, nil)
	if diags.HasErrors() {
		return false, diags
	}
	if !v.IsKnown() && s.l.failures > 0 {
		return false, diags // a consequence of what is reported already
	}
	if !v.IsKnown() {
		return false, append(diags, errorAt(d.enabled.Range(), "enabled depends on a stage",
			"Whether a stage is part of the plan must be known before anything runs; use variables, locals and systems only."))
	}
	if v.IsNull() || v.Type() != cty.Bool {
		return false, append(diags, errorAt(d.enabled.Range(), "Invalid enabled", "true or false is needed."))
	}
	return v.True(), diags
}

type keyed struct {
	key   string
	value cty.Value
}

// forEachKeys lists the instances in the order in which the user wrote them.
func (s *scope) forEachKeys(d *blockDecl, v cty.Value) ([]keyed, hcl.Diagnostics) {
	rng := d.forEach.Range()
	if (!v.IsKnown() || unknownKeys(v)) && s.l.failures > 0 {
		return nil, nil // a consequence of what is reported already
	}
	if !v.IsKnown() || unknownKeys(v) {
		return nil, hcl.Diagnostics{errorAt(rng, "for_each depends on a stage",
			fmt.Sprintf("The keys must be known before anything runs, but %s is known only after its stage ran. Put the keys into a local and the values into a map over them.", s.firstStageRef(d.forEach)))}
	}
	if v.IsNull() {
		return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each", "The value is null; a map, an object, a set or a list of strings is needed.")}
	}
	t := v.Type()
	var out []keyed
	switch {
	case stage.IsRef(v):
		return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each", "This is one stage; for_each needs a map or a list. For one stage leave for_each away.")}
	case t.IsObjectType() || t.IsMapType():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			out = append(out, keyed{k.AsString(), e})
		}
		if order := s.keyOrder(d.forEach, 0); order != nil {
			sort.SliceStable(out, func(i, j int) bool { return order[out[i].key] < order[out[j].key] })
		}
	case t.IsSetType() || t.IsListType() || t.IsTupleType():
		seen := map[string]bool{}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			if !e.IsKnown() || e.IsNull() || e.Type() != cty.String {
				return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each", "The elements of a list or set must be known strings: they become the keys. Use a map to give each key a value.")}
			}
			k := e.AsString()
			if seen[k] {
				return nil, hcl.Diagnostics{errorAt(rng, "Duplicate for_each key", fmt.Sprintf("The key %q occurs twice.", k))}
			}
			seen[k] = true
			out = append(out, keyed{k, e})
		}
	default:
		return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each", fmt.Sprintf("A map, an object, a set or a list of strings is needed, not %s.", t.FriendlyName()))}
	}
	return out, nil
}

// unknownKeys says whether a list or set has elements that wait for a stage.
func unknownKeys(v cty.Value) bool {
	t := v.Type()
	if v.IsNull() || !(t.IsSetType() || t.IsListType() || t.IsTupleType()) {
		return false
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !e.IsKnown() {
			return true
		}
	}
	return false
}

func (s *scope) firstStageRef(expr hcl.Expression) string {
	refs, _ := s.references(expr, nil, nil)
	for _, r := range refs {
		if _, ok := s.l.kinds[r.root]; ok {
			return r.root + "." + r.name
		}
	}
	return "the value"
}

// keyOrder recovers the order in which the keys of a literal were written,
// which objects do not keep. It looks through locals and other stages'
// for_each; nil means by name.
func (s *scope) keyOrder(expr hcl.Expression, depth int) map[string]int {
	if depth > 8 {
		return nil
	}
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return s.keyOrder(e.Expression, depth+1)
	case *hclsyntax.ObjectConsExpr:
		order := map[string]int{}
		for i, item := range e.Items {
			k, diags := s.eval(item.KeyExpr, nil)
			if diags.HasErrors() || !k.IsKnown() || k.IsNull() || k.Type() != cty.String {
				return nil
			}
			order[k.AsString()] = i
		}
		return order
	case *hclsyntax.ForExpr:
		if key, ok := e.KeyExpr.(*hclsyntax.ScopeTraversalExpr); ok && key.Traversal.RootName() == e.KeyVar && len(key.Traversal) == 1 {
			return s.keyOrder(e.CollExpr, depth+1)
		}
	case *hclsyntax.ScopeTraversalExpr:
		t := e.Traversal
		if len(t) < 2 {
			return nil
		}
		step, ok := t[1].(hcl.TraverseAttr)
		if !ok {
			return nil
		}
		if len(t) == 3 && t.RootName() == "module" {
			return s.outputOrder(step.Name, t[2], depth)
		}
		if len(t) != 2 {
			return nil
		}
		if t.RootName() == "var" && s.parent != nil {
			if a, ok := s.call.body.Attributes[step.Name]; ok {
				return s.parent.keyOrder(a.Expr, depth+1)
			}
			return nil
		}
		if a, ok := s.decl.locals[step.Name]; ok && t.RootName() == "local" {
			return s.keyOrder(a.Expr, depth+1)
		}
		if d, ok := s.decl.stages[t.RootName()][step.Name]; ok && d.forEach != nil {
			ins, _ := s.instancesOf(d)
			order := map[string]int{}
			for i, in := range ins {
				order[in.Key] = i
			}
			return order
		}
	}
	return nil
}

// itemOf finds the expression that gives one key of a for_each its value, and
// the module that it stands in: the whole for_each where that cannot be told.
func (s *scope) itemOf(expr hcl.Expression, key string, depth int) (*scope, hcl.Expression) {
	if depth > 8 {
		return s, expr
	}
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return s.itemOf(e.Expression, key, depth+1)
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			if k, diags := s.eval(item.KeyExpr, nil); !diags.HasErrors() && k.IsKnown() && !k.IsNull() && k.Type() == cty.String && k.AsString() == key {
				return s, item.ValueExpr
			}
		}
	case *hclsyntax.ScopeTraversalExpr:
		if len(e.Traversal) != 2 {
			break
		}
		step, ok := e.Traversal[1].(hcl.TraverseAttr)
		if !ok {
			break
		}
		switch root := e.Traversal.RootName(); {
		case root == "local" && s.decl.locals[step.Name] != nil:
			return s.itemOf(s.decl.locals[step.Name].Expr, key, depth+1)
		case root == "var" && s.parent != nil && s.call.body.Attributes[step.Name] != nil:
			return s.parent.itemOf(s.call.body.Attributes[step.Name].Expr, key, depth+1)
		}
	}
	return s, expr
}

// outputOrder is keyOrder of a module's output.
func (s *scope) outputOrder(module string, step hcl.Traverser, depth int) map[string]int {
	a, ok := step.(hcl.TraverseAttr)
	d, declared := s.decl.modules[module]
	if !ok || !declared {
		return nil
	}
	children, diags := s.modulesNamed(d)
	if diags.HasErrors() || len(children) != 1 || children[0].decl.outputs[a.Name] == nil {
		return nil
	}
	return children[0].keyOrder(children[0].decl.outputs[a.Name].value, depth+1)
}

// instancesOf expands a stage block at the first call.
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
	for _, k := range keys {
		in := &Instance{
			Address: s.qualify(label), Kind: s.l.kinds[d.kind], Name: d.name, Range: d.rng(),
			scope: s, decl: d, each: k.each,
		}
		if k.each != nil {
			in.Key = k.each.key
			in.Address += keySuffix(in.Key)
		}
		if d.describe != nil {
			v, more := s.eval(d.describe, k.each)
			diags = append(diags, more...)
			if !more.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
				in.Description = v.AsString()
			}
		}
		off, more := s.inputDisabled(d, k.each)
		diags = append(diags, more...)
		if !off {
			out = append(out, in)
		}
	}
	s.instances[d] = out
	return out, diags
}

// inputDisabled says whether an attribute that simply names another stage
// names a disabled one: disabling a grid takes along what stands behind it.
func (s *scope) inputDisabled(d *blockDecl, each *eachValue) (bool, hcl.Diagnostics) {
	for _, name := range sortedKeys(d.body.Attributes) {
		expr := d.body.Attributes[name].Expr
		refs, diags := s.references(expr, each, nil)
		if len(refs) != 1 || len(diags) > 0 {
			continue
		}
		r := refs[0]
		if _, isStage := s.l.kinds[r.root]; !isStage && r.root != "module" {
			continue
		}
		switch expr.(type) {
		case *hclsyntax.ScopeTraversalExpr, *hclsyntax.IndexExpr, *hclsyntax.RelativeTraversalExpr:
		default:
			continue
		}
		if s.refDisabled(r) {
			return true, nil
		}
	}
	return false, nil
}

func (s *scope) refDisabled(r ref) bool {
	if r.root == "module" {
		d, ok := s.decl.modules[r.name]
		if !ok || r.attr == "" {
			return false
		}
		children, diags := s.modulesNamed(d)
		if diags.HasErrors() {
			return false
		}
		for _, c := range children {
			if r.key != nil && (c.each == nil || c.each.key != *r.key) {
				continue
			}
			v, more := c.output(r.attr, r.rng)
			return !more.HasErrors() && v.IsKnown() && v.IsNull()
		}
		return len(children) == 0 && d.enabled != nil
	}
	target, ok := s.decl.stages[r.root][r.name]
	if !ok {
		return false
	}
	ins, diags := s.instancesOf(target)
	if diags.HasErrors() {
		return false
	}
	if r.key == nil {
		return len(ins) == 0 && target.forEach == nil
	}
	for _, in := range ins {
		if in.Key == *r.key {
			return false
		}
	}
	// An unknown key is a mistake to report, unless instances were disabled.
	return s.keyDeclared(target, *r.key)
}

// keyDeclared says whether a for_each names key, be it disabled or not.
func (s *scope) keyDeclared(d *blockDecl, key string) bool {
	if d.forEach == nil {
		return false
	}
	v, diags := s.eval(d.forEach, nil)
	if diags.HasErrors() || !v.IsKnown() || v.IsNull() {
		return false
	}
	keys, diags := s.forEachKeys(d, v)
	if diags.HasErrors() {
		return false
	}
	for _, k := range keys {
		if k.key == key {
			return true
		}
	}
	return false
}

// evaluateAll evaluates everything that is known before a run, so that one
// load reports as many mistakes as there are.
func (s *scope) evaluateAll() hcl.Diagnostics {
	var diags hcl.Diagnostics
	add := func(_ any, more hcl.Diagnostics) { diags = append(diags, more...) }
	for _, name := range s.decl.varOrder {
		v, more := s.variable(name, s.decl.variables[name].rng)
		add(v, more)
	}
	for _, name := range sortedKeys(s.decl.locals) {
		v, more := s.local(name, s.decl.locals[name].NameRange)
		add(v, more)
	}
	for _, name := range sortedKeys(s.decl.systems) {
		v, more := s.system(name, s.decl.systems[name].rng())
		add(v, more)
	}
	for _, name := range sortedKeys(s.decl.runtimes) {
		v, more := s.runtime(name, s.decl.runtimes[name].rng())
		add(v, more)
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
		}
	}
	for _, name := range s.decl.outOrder {
		v, more := s.output(name, s.decl.outputs[name].rng)
		add(v, more)
	}
	return diags
}

// allInstances lists the stage instances of this module and those in it, in
// source order.
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
