package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// eval evaluates an expression in the scope of this module.
func (s *scope) eval(expr hcl.Expression, each *eachValue) (cty.Value, hcl.Diagnostics) {
	ctx, diags := s.context([]hcl.Expression{expr}, each, nil)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	v, more := expr.Value(ctx)
	return v, append(diags, more...)
}

// context returns an evaluation context with only the values that the expressions refer to.
// Building all values for every expression costs a hundred times as much on large plans.
func (s *scope) context(exprs []hcl.Expression, each *eachValue,
	bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	vals := map[string]map[string]cty.Value{}
	modules := map[string][]ref{}
	var all []ref
	var diags hcl.Diagnostics
	set := func(root, name string, v cty.Value, more hcl.Diagnostics) {
		if vals[root] == nil {
			vals[root] = map[string]cty.Value{}
		}
		vals[root][name] = v
		diags = append(diags, more...)
	}
	for _, e := range exprs {
		refs, more := s.references(e, each, bound)
		diags = append(diags, more...)
		all = append(all, refs...)
		for _, t := range s.l.parts(e).variables {
			if root := t.RootName(); len(t) == 1 && vals[root] == nil && s.l.kinds[root].New != nil {
				vals[root] = map[string]cty.Value{} // the kind may have no stages in this module
			}
		}

		for _, r := range refs {
			if r.root == "module" {
				modules[r.name] = append(modules[r.name], r)
				continue
			}

			if _, have := vals[r.root][r.name]; !have {
				v, more := s.value(r, each)
				set(r.root, r.name, v, more)
			}
		}
	}

	for _, name := range sortedKeys(modules) {
		v, more := s.moduleValue(modules[name])
		set("module", name, v, more)
	}

	for _, r := range all {
		s.use(r, each)
	}

	ctx := &hcl.EvalContext{Variables: make(map[string]cty.Value, len(vals)), Functions: s.l.functions}
	for root, m := range vals {
		ctx.Variables[root] = cty.ObjectVal(m)
	}

	return ctx, diags
}

func (s *scope) value(r ref, each *eachValue) (cty.Value, hcl.Diagnostics) {
	switch r.root {
	case "var":
		return s.variable(r.name, r.rng)
	case "local":
		return s.local(r.name, r.rng)
	case "system":
		return s.block(r, s.decodeSystem)
	case "runtime":
		return s.block(r, s.decodeRuntime)
	case "part":
		return s.block(r, s.decodePart)
	case "each":
		return eachRef(r, each)
	case "path":
		return s.pathRef(r)
	}

	if s.l.services[r.root] != nil {
		return s.block(r, s.decodeService)
	}

	return s.stageValue(r)
}

func eachRef(r ref, each *eachValue) (cty.Value, hcl.Diagnostics) {
	if each == nil {
		return cty.DynamicVal, errorAt(r.rng, "No for_each here",
			"each.key and each.value exist only in blocks with for_each.")
	}

	switch r.name {
	case "key":
		return cty.StringVal(each.key), nil
	case "value":
		return each.now()
	}

	return cty.DynamicVal, errorAt(r.rng, "Unknown attribute",
		"each has key and value, not %q.", r.name)
}

// pathRef returns path.module or path.plan. Both are relative to the plan's folder, so a plan has
// the same meaning wherever its folder is.
func (s *scope) pathRef(r ref) (cty.Value, hcl.Diagnostics) {
	root := s
	for root.parent != nil {
		root = root.parent
	}

	switch r.name {
	case "plan":
		return cty.StringVal("."), nil
	case "module":
		rel, _ := filepath.Rel(root.decl.dir, s.decl.dir) // both are absolute
		return cty.StringVal(filepath.ToSlash(rel)), nil
	}

	return cty.DynamicVal, errorAt(r.rng, "Unknown attribute",
		"path has module and plan, not %q.", r.name)
}

// moduleValue returns the outputs of a module that some references to it name.
func (s *scope) moduleValue(refs []ref) (cty.Value, hcl.Diagnostics) {
	d, diags := s.declared("module", refs[0].name, refs[0].rng)
	if d == nil {
		return cty.DynamicVal, diags
	}

	children, diags := s.modulesNamed(d)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	var wanted []*scope
	for _, r := range refs {
		found := s.referred(r)
		if len(found) == 0 { // the error lists the keys of all instances
			wanted = children
			break
		}
		wanted = append(wanted, found...)
	}

	byKey := map[string]cty.Value{}
	for _, c := range wanted {
		if c.each != nil && byKey[c.each.key] != cty.NilVal {
			continue
		}

		attrs := map[string]cty.Value{}
		for _, r := range refs {
			names := []string{r.attr}
			if r.attr == "" {
				names = c.decl.outOrder
			}

			for _, name := range names {
				if _, have := attrs[name]; !have {
					v, more := c.output(name, r.rng)
					diags = append(diags, more...)
					attrs[name] = v
				}
			}
		}

		if c.each == nil {
			return cty.ObjectVal(attrs), diags
		}

		byKey[c.each.key] = cty.ObjectVal(attrs)
	}

	if d.forEach == nil {
		return cty.NullVal(cty.DynamicPseudoType), diags // enabled = false
	}

	return cty.ObjectVal(byKey), diags
}

func (s *scope) stageValue(r ref) (cty.Value, hcl.Diagnostics) {
	d, diags := s.declared(r.root, r.name, r.rng)
	if d == nil {
		return cty.DynamicVal, diags
	}

	ins, diags := s.instancesOf(d)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}

	if d.forEach == nil {
		if len(ins) == 0 {
			return cty.NullVal(cty.DynamicPseudoType), diags
		}
		return s.l.instanceValue(ins[0]), diags
	}

	// Every instance of another stage may refer to one of these instances by its key.
	label := r.root + "." + r.name
	if m, ok := s.memo[label]; ok && m.seen == s.l.finished {
		return m.value, diags
	}

	byKey := map[string]cty.Value{}
	for _, in := range ins {
		byKey[in.Key] = s.l.instanceValue(in)
	}

	v := cty.ObjectVal(byKey)
	s.memo[label] = memoized{value: v, seen: s.l.finished}
	return v, diags
}

// instanceValue returns the value of a stage reference such as collect.gemm.
func (l *loader) instanceValue(in *Instance) cty.Value {
	attrs := map[string]cty.Value{
		"address": cty.StringVal(in.Address),
		"ref":     cty.CapsuleVal(stage.RefType, &stage.Ref{Address: in.Address, Kind: in.Kind.Name}),
	}
	known := l.results[in.Address]

	set := func(name string, t cty.Type) {
		if v, ok := known[name]; ok {
			attrs[name] = v
		} else {
			attrs[name] = cty.UnknownVal(t)
		}
	}

	set("rows", cty.Number)
	set("digest", cty.String)
	for name, t := range in.Kind.Outputs {
		set(name, t)
	}

	return cty.ObjectVal(attrs)
}

// evaluator implements stage.Evaluator for one instance.
type evaluator struct {
	scope *scope
	each  *eachValue
}

// Context implements stage.Evaluator.
func (e *evaluator) Context(exprs []hcl.Expression, bound map[string]bool) (*hcl.EvalContext, hcl.Diagnostics) {
	ctx, diags := e.scope.context(exprs, e.each, bound)
	if diags.HasErrors() {
		return ctx, diags
	}
	return ctx, append(diags, e.scope.l.sensitiveIn(exprs, ctx, bound)...)
}

// Text implements stage.Evaluator.
func (e *evaluator) Text(r hcl.Range) string { return e.scope.l.src.snippet(r) }

// hasUnknown reports whether an attribute of body depends on a stage that has not run.
func (e *evaluator) hasUnknown(body *hclsyntax.Body) (bool, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	for _, expr := range bodyExpressions(body) {
		v, more := e.scope.eval(expr, e.each)
		diags = append(diags, more...)
		if !more.HasErrors() && hasUnknownPart(v) {
			return true, diags
		}
	}

	return false, diags
}

// consequence reports whether a value is unknown because of an error that is already reported.
// Reporting it again would be misleading.
func (s *scope) consequence(exprs []hcl.Expression, ctx *hcl.EvalContext) bool {
	if s.l.failures == 0 {
		return false
	}
	return slices.ContainsFunc(exprs, func(e hcl.Expression) bool {
		v, diags := e.Value(ctx)
		return !diags.HasErrors() && hasUnknownPart(v)
	})
}

// hasUnknownPart reports whether a value contains unknown parts. It ignores the contents of stage
// references, because the reference itself is known before the stage runs.
func hasUnknownPart(v cty.Value) bool {
	v, _ = v.Unmark()
	switch {
	case !v.IsKnown():
		return true
	case stage.IsRef(v) || v.IsNull() || !v.CanIterateElements():
		return false
	}

	for _, e := range v.Elements() {
		if hasUnknownPart(e) {
			return true
		}
	}

	return false
}

// refAddresses returns the addresses of the stage instances inside a value.
func refAddresses(v cty.Value) []string {
	if v == cty.NilVal || v.IsMarked() || !v.IsKnown() || v.IsNull() {
		return nil
	}
	if r, err := stage.RefOf(v); err == nil {
		return []string{r.Address}
	}
	if !v.CanIterateElements() {
		return nil
	}

	var out []string
	for _, e := range v.Elements() {
		out = append(out, refAddresses(e)...)
	}

	return out
}

// bodyExpressions returns the expressions of a body and its nested blocks in source order.
func bodyExpressions(body *hclsyntax.Body) []hcl.Expression {
	out := stage.Expressions(body)
	slices.SortStableFunc(out, func(a, b hcl.Expression) int {
		return cmp.Compare(a.Range().Start.Byte, b.Range().Start.Byte)
	})

	return out
}

func sortedKeys[T any](m map[string]T) []string {
	return slices.Sorted(maps.Keys(m))
}
