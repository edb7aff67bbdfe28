package config

import (
	"fmt"
	"maps"
	"slices"
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

	return fmt.Sprintf("%s If it is text, put it into quotes: %q.", hint, stage.TraversalText(t))
}

// isReference reports whether an expression is a reference and nothing else.
func isReference(expr hcl.Expression) bool {
	switch expr.(type) {
	case *hclsyntax.ScopeTraversalExpr, *hclsyntax.IndexExpr, *hclsyntax.RelativeTraversalExpr:
		return true
	}
	return false
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
		if _, r.name = named(t); r.name == "" {
			stage.AddError(&diags, r.rng, "Incomplete reference",
				"%q must be followed by a name, as in %s.name.", root, root)
			continue
		}

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

// resolve resolves every reference in the body and in depends_on, and sets the dependencies of the instance: the
// stages that they refer to, also through locals, variables and module outputs.
func (in *Instance) resolve() hcl.Diagnostics {
	used, diags := in.bodyUses()
	for _, w := range in.dependsOn() {
		more := w.add(used)
		if w.scope == in.scope { // those of modules are reported once for the module
			diags = append(diags, more...)
		}
	}

	in.Deps = slices.Sorted(maps.Keys(used.stages))
	return diags
}

// bodyUses resolves the references in the body.
func (in *Instance) bodyUses() (used *uses, diags hcl.Diagnostics) {
	exprs := bodyExpressions(in.decl.body)
	used = in.scope.l.collect(func() {
		var bound map[string]bool
		if in.Kind.BareNames {
			bound = in.scope.bareNames(exprs)
		}
		_, diags = in.scope.context(exprs, in.each, bound)
	})
	return used, diags
}

// bareNames returns the roots of expressions that are not part of the language: the block binds them itself.
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

// uses are what the value of an expression depends on.
type uses struct {
	stages map[string]bool // addresses of stage instances
	failed bool            // a value could not be evaluated
}

func newUses() *uses { return &uses{stages: map[string]bool{}} }

func (u *uses) add(other *uses) {
	if other != nil {
		maps.Copy(u.stages, other.stages)
		u.failed = u.failed || other.failed
	}
}

// collect returns what the values use that f evaluates.
func (l *loader) collect(f func()) *uses {
	outer, own := l.uses, newUses()
	l.uses = own
	f()
	l.uses = outer
	return own
}

// use adds what a reference depends on to the uses that are being collected. The reference was evaluated before.
func (s *scope) use(r ref, each *eachValue) {
	if s.l.uses == nil {
		return
	}

	switch {
	case r.root == "module":
		s.useModule(r)
	case r.root == "each":
		if each != nil && r.name == "value" {
			each.use(r.attr)
		}
	case s.stageBlock(r.root, r.name) != nil:
		ins, _ := s.instancesOf(s.stageBlock(r.root, r.name))
		for _, in := range ins {
			if r.key == nil || in.Key == *r.key {
				s.l.uses.stages[in.Address] = true
			}
		}

	default:
		s.l.uses.add(s.memo[r.root+"."+r.name].uses)
	}
}

func (s *scope) useModule(r ref) {
	children := s.referred(r)
	if d := s.decl.blocks["module"][r.name]; len(children) == 0 && d != nil && d.forEach != nil {
		keys := s.l.collect(func() { s.eval(d.forEach, nil) }) // empty, or unknown because of what it reads
		s.l.uses.failed = s.l.uses.failed || keys.failed
	}

	for _, c := range children {
		for _, name := range c.decl.outOrder {
			if r.attr == "" || r.attr == name {
				s.l.uses.add(c.memo["output."+name].uses)
			}
		}
	}
}

// referred returns the instances of a module that a reference means.
func (s *scope) referred(r ref) []*scope {
	return slices.DeleteFunc(slices.Clone(s.children[r.name]), func(c *scope) bool {
		return r.key != nil && c.each != nil && c.each.key != *r.key
	})
}

// use adds what each.value, or one attribute of it, depends on. If for_each iterates over stages, that is the stage.
// Otherwise it is what the for_each item with this key depends on.
func (e *eachValue) use(attr string) {
	v := e.value
	if attr != "" && !stage.IsRef(v) && v.IsKnown() && !v.IsNull() && v.Type().IsObjectType() &&
		v.Type().HasAttribute(attr) {
		v = v.GetAttr(attr)
	} else {
		attr = ""
	}

	for _, a := range refAddresses(v) {
		e.from.l.uses.stages[a] = true
	}

	if !hasUnknownPart(v) {
		return
	}

	from, expr, item := e.from.itemOf(e.expr, e.key)
	key := &e.key
	if item {
		key = nil // the item itself is not keyed
		if attr != "" {
			from, expr, _ = from.itemOf(expr, attr)
		}
	}

	if t, ok := expr.(*hclsyntax.ScopeTraversalExpr); ok && len(t.Traversal) == 2 {
		if root, name := named(t.Traversal); root == "module" {
			from.useModule(ref{root: root, name: name, key: key, attr: attr})
			return
		}
	}

	from.context([]hcl.Expression{expr}, nil, nil) // for_each has reported its errors
}
