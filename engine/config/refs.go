package config

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// ref is one reference in an expression: root.name, with the instance key and the attribute after
// it if they are known.
type ref struct {
	root, name string
	key        *string
	attr       string // output of a module; "" for the whole module
	rng        hcl.Range
}

// reserved are the roots that are not stage kinds.
var reserved = []string{"var", "local", "module", "system", "runtime", "part", "each", "path"}

// meant returns a hint for an unknown name: a variable or local with that name, a similar name, the
// names available here, or quotes if it was meant as text.
func (s *scope) meant(t hcl.Traversal, bound []string) string {
	root := t.RootName()
	switch {
	case s.decl.variables[root] != nil:
		return fmt.Sprintf(" Did you mean var.%s?", root)
	case s.decl.locals[root] != nil:
		return fmt.Sprintf(" Did you mean local.%s?", root)
	}

	hint := ""
	if len(root) > 2 { // shorter names are similar to everything
		hint = didYouMean(root, append(namesOf(s.l.roots), bound...))
	}

	switch {
	case strings.Contains(hint, "Did you mean"):
		return hint
	case hint == "" && len(bound) > 0 && len(bound) <= 30:
		return " The names here are " + strings.Join(slices.Sorted(slices.Values(bound)), ", ") + "."
	}

	text := root
	for _, step := range t[1:] {
		attr, ok := step.(hcl.TraverseAttr)
		if !ok {
			return hint
		}
		text += "." + attr.Name
	}

	return fmt.Sprintf("%s If it is text, put it into quotes: %q.", hint, text)
}

// references returns the references of an expression. Roots in bound are skipped.
func (s *scope) references(expr hcl.Expression, each *eachValue, bound map[string]bool) ([]ref, hcl.Diagnostics) {
	parsed := s.l.parts(expr)
	dynamic := s.dynamicKeys(parsed, each)
	var out []ref
	var diags hcl.Diagnostics
	for _, t := range parsed.variables {
		root := t.RootName()
		if bound[root] {
			continue
		}

		if !s.l.roots[root] {
			stage.AddError(&diags, t.SourceRange(), "Unknown reference",
				"Nothing here is called %q.%s", root, s.meant(t, namesOf(bound)))
			continue
		}

		r := ref{root: root, rng: t.SourceRange()}
		if len(t) < 2 && s.l.kinds[root].New != nil { // all stages of the kind
			for _, name := range namesOf(s.decl.blocks[root]) {
				out = append(out, ref{root: root, name: name, rng: r.rng})
			}
			continue
		}
		if len(t) < 2 {
			stage.AddError(&diags, r.rng, "Incomplete reference",
				"%q must be followed by a name, as in %s.name.", root, root)
			continue
		}

		step, ok := t[1].(hcl.TraverseAttr)
		if !ok {
			stage.AddError(&diags, r.rng, "Invalid reference", "Write %s.name.", root)
			continue
		}

		r.name = step.Name
		rest := t[2:]
		if len(rest) > 0 {
			if ix, ok := rest[0].(hcl.TraverseIndex); ok && ix.Key.Type() == cty.String {
				k := ix.Key.AsString()
				r.key = &k
				rest = rest[1:]
			}
		}

		if len(rest) > 0 {
			if a, ok := rest[0].(hcl.TraverseAttr); ok {
				r.attr = a.Name
			}
		}

		if d, ok := dynamic[r.rng]; ok && r.key == nil {
			r.key, r.attr = &d.key, d.attr
		}

		out = append(out, r)
	}

	return out, diags
}

// exprParts is what references needs from an expression. It is cached, because the same expressions
// are evaluated for every instance of a module.
type exprParts struct {
	variables []hcl.Traversal
	indexes   []indexPart
}

// indexPart is an index expression such as collect.gemm[each.key] with the attribute after it.
type indexPart struct {
	*hclsyntax.IndexExpr
	attr string
}

func (l *loader) parts(expr hcl.Expression) exprParts {
	node, ok := expr.(hclsyntax.Node)
	if !ok {
		return exprParts{variables: expr.Variables()}
	}
	if p, ok := l.exprs[node]; ok {
		return p
	}

	p := exprParts{variables: expr.Variables()}
	hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		switch n := n.(type) {
		case *hclsyntax.RelativeTraversalExpr:
			if ix, ok := n.Source.(*hclsyntax.IndexExpr); ok && len(n.Traversal) > 0 {
				if a, ok := n.Traversal[0].(hcl.TraverseAttr); ok {
					p.indexes = append(p.indexes, indexPart{ix, a.Name})
				}
			}
		case *hclsyntax.IndexExpr:
			p.indexes = append(p.indexes, indexPart{n, ""})
		}
		return nil
	})

	l.exprs[node] = p
	return p
}

type dynamicKey struct{ key, attr string }

// dynamicKeys evaluates the keys of index expressions such as collect.gemm[each.key], so that the
// reference depends on one instance instead of all of them.
func (s *scope) dynamicKeys(parsed exprParts, each *eachValue) map[hcl.Range]dynamicKey {
	var out map[hcl.Range]dynamicKey
	for _, ix := range parsed.indexes {
		coll, ok := ix.Collection.(*hclsyntax.ScopeTraversalExpr)
		if !ok || len(coll.Traversal) != 2 {
			continue
		}
		if root := coll.Traversal.RootName(); root != "module" && s.l.kinds[root].Name == "" {
			continue
		}

		key := s.l.parts(ix.Key)
		if slices.ContainsFunc(key.variables, func(t hcl.Traversal) bool { return !s.l.roots[t.RootName()] }) {
			continue // bound by a for expression
		}

		v, diags := s.eval(ix.Key, each)
		if diags.HasErrors() || !stage.IsText(v) {
			continue
		}
		if out == nil {
			out = map[hcl.Range]dynamicKey{}
		}

		rng := coll.Traversal.SourceRange()
		if old, seen := out[rng]; !seen || old.attr == "" {
			out[rng] = dynamicKey{key: v.AsString(), attr: ix.attr}
		}
	}

	return out
}

// checkReferences resolves every reference in the body and in depends_on, and returns the errors.
func (in *Instance) checkReferences() hcl.Diagnostics {
	exprs := bodyExpressions(in.decl.body)
	_, diags := in.scope.context(exprs, in.each, in.scope.unboundRoots(in, exprs))
	if in.decl.dependsOn != nil {
		diags = append(diags, waits{in.scope, in.decl.dependsOn, in.each}.check()...)
	}
	return diags
}

// trace collects the addresses of the stage instances that the instance's body and depends_on refer
// to, through locals, variables and module outputs.
func (in *Instance) trace() hcl.Diagnostics {
	t := newTracer()
	exprs := bodyExpressions(in.decl.body)
	bound := in.scope.unboundRoots(in, exprs)
	for _, e := range exprs {
		t.expr(in.scope, e, in.each, bound)
	}

	for _, w := range in.dependsOn() {
		t.waits(w)
	}

	for a := range t.found {
		in.Deps = append(in.Deps, a)
	}

	sort.Strings(in.Deps)
	return t.diags
}

// unboundRoots returns the names that the body of a kind with BareNames binds itself: every root
// that is not part of the language. It returns nil for other kinds.
func (s *scope) unboundRoots(in *Instance, exprs []hcl.Expression) map[string]bool {
	if !in.Kind.BareNames {
		return nil
	}
	return s.bareNames(exprs)
}

// bareNames returns the roots of expressions that are not part of the language.
func (s *scope) bareNames(exprs []hcl.Expression) map[string]bool {
	out := map[string]bool{}
	for _, e := range exprs {
		for _, t := range e.Variables() {
			if !s.l.roots[t.RootName()] {
				out[t.RootName()] = true
			}
		}
	}

	return out
}

type tracer struct {
	found map[string]bool
	seen  map[string]bool
	diags hcl.Diagnostics

	failed bool // a value that was read could not be evaluated
}

func newTracer() *tracer { return &tracer{found: map[string]bool{}, seen: map[string]bool{}} }

func (t *tracer) expr(s *scope, expr hcl.Expression, each *eachValue, bound map[string]bool) {
	refs, diags := s.references(expr, each, bound)
	t.diags = append(t.diags, diags...)
	for _, r := range refs {
		t.ref(s, r, each)
	}
}

func (t *tracer) ref(s *scope, r ref, each *eachValue) {
	id := s.path + "\x00" + r.root + "." + r.name
	t.failed = t.failed || s.memo[r.root+"."+r.name].failed
	switch r.root {
	case "local":
		if a, ok := s.decl.locals[r.name]; ok && !t.visited(id) {
			t.expr(s, a.Expr, nil, nil)
		}

	case "var":
		if s.parent == nil && s.decl.variables[r.name] != nil {
			value, _ := s.variable(r.name, r.rng)
			t.failed = t.failed || !value.IsKnown()
		}
		if s.parent != nil && !t.visited(id) {
			if a, ok := s.call.body.Attributes[r.name]; ok {
				t.expr(s.parent, a.Expr, s.each, nil)
			}
		}

	case "module":
		if d, ok := s.decl.blocks["module"][r.name]; ok {
			children, _ := s.modulesNamed(d)
			if len(children) == 0 && d.forEach != nil { // empty, or unknown because of what it reads
				condition := newTracer()
				condition.expr(s, d.forEach, nil, nil)
				t.failed = t.failed || condition.failed
			}
			for _, c := range children {
				if r.key == nil || c.each == nil || c.each.key == *r.key {
					t.outputs(c, r.attr)
				}
			}
		}

	case "part":
		if d := s.decl.blocks["part"][r.name]; d != nil && !t.visited(id) {
			exprs := bodyExpressions(d.body)
			bound := s.bareNames(exprs)
			for _, e := range exprs {
				t.expr(s, e, nil, bound)
			}
		}

	case "each":
		t.each(r, each)

	case "path":

	default:
		if d := s.stageBlock(r.root, r.name); d != nil {
			ins, _ := s.instancesOf(d)
			for _, in := range ins {
				if r.key == nil || in.Key == *r.key {
					t.found[in.Address] = true
				}
			}
			return
		}

		if d := s.decl.blocks[r.root][r.name]; d != nil && !t.visited(id) { // a runtime, system or service
			for _, e := range bodyExpressions(d.body) {
				t.expr(s, e, nil, nil)
			}
		}
	}
}

// each follows each.value, or one attribute of it. If for_each iterates over stages, the value is
// the reference. Otherwise the dependencies are those of the for_each item with this key.
func (t *tracer) each(r ref, each *eachValue) {
	if each == nil || r.name != "value" {
		return
	}
	v, attr := each.value, r.attr
	if attr != "" && !stage.IsRef(v) && v.IsKnown() && !v.IsNull() && v.Type().IsObjectType() &&
		v.Type().HasAttribute(attr) {
		v = v.GetAttr(attr)
	} else {
		attr = ""
	}

	for _, a := range refAddresses(v) {
		t.found[a] = true
	}

	if !hasUnknownPart(v) {
		return
	}

	from, expr, item := each.from.itemOf(each.expr, each.key)
	key := &each.key
	if item {
		key = nil // the item itself is not keyed
		if attr != "" {
			from, expr, _ = from.itemOf(expr, attr)
		}
	}

	if e, ok := expr.(*hclsyntax.ScopeTraversalExpr); ok && e.Traversal.RootName() == "module" &&
		len(e.Traversal) == 2 {
		if step, ok := e.Traversal[1].(hcl.TraverseAttr); ok {
			t.ref(from, ref{root: "module", name: step.Name, key: key, attr: attr, rng: e.Range()}, nil)
			return
		}
	}

	if id := fmt.Sprintf("%s\x00each %s %s", from.path, each.key, expr.Range()); !t.visited(id) {
		t.expr(from, expr, nil, nil)
	}
}

func (t *tracer) outputs(c *scope, attr string) {
	for _, name := range c.decl.outOrder {
		if attr != "" && attr != name {
			continue
		}
		if !t.visited(c.path + "\x00output." + name) {
			t.failed = t.failed || c.memo["output."+name].failed
			t.expr(c, c.decl.outputs[name].value, nil, nil)
		}
	}
}

func (t *tracer) visited(id string) bool {
	if t.seen[id] {
		return true
	}
	t.seen[id] = true
	return false
}
