package config

import (
	"fmt"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

type keyed struct {
	key   string
	value cty.Value
}

// forEachKeys returns the keys and values of a for_each in the order in which they are written.
func (s *scope) forEachKeys(d *blockDecl, v cty.Value) ([]keyed, hcl.Diagnostics) {
	rng := d.forEach.Range()
	if (!v.IsKnown() || unknownKeys(v)) && s.l.failures > 0 {
		return nil, nil // a consequence of an error that is already reported
	}
	if !v.IsKnown() || unknownKeys(v) {
		return nil, hcl.Diagnostics{errorAt(rng, "for_each depends on a stage",
			fmt.Sprintf("The keys must be known before anything runs, but %s is known only after its stage ran. Put the keys into a local and the values into a map over them.", s.firstStageRef(d.forEach)))}
	}

	if v.IsNull() {
		return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each",
			"The value is null; a map, an object, a set or a list of strings is needed.")}
	}

	t := v.Type()
	var out []keyed
	switch {
	case stage.IsRef(v):
		return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each",
			"This is one stage; for_each needs a map or a list. For one stage leave for_each away.")}

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
				return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each",
					"The elements of a list or set must be known strings: they become the keys. Use a map to give each key a value.")}
			}

			k := e.AsString()
			if seen[k] {
				return nil, hcl.Diagnostics{errorAt(rng, "Duplicate for_each key",
					fmt.Sprintf("The key %q occurs twice.", k))}
			}

			seen[k] = true
			out = append(out, keyed{k, e})
		}

	default:
		return nil, hcl.Diagnostics{errorAt(rng, "Invalid for_each",
			fmt.Sprintf("A map, an object, a set or a list of strings is needed, not %s.", t.FriendlyName()))}
	}

	return out, nil
}

// unknownKeys reports whether a list or set has elements that depend on a stage.
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

// keyOrder returns the source order of the keys of an object literal, which object values do not
// preserve. It follows locals, variables, module outputs and the for_each of other stages. It
// returns nil if the order is unknown; keys are then sorted by name.
func (s *scope) keyOrder(expr hcl.Expression, depth int) map[string]int {
	if depth > 8 {
		return nil
	}

	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return s.keyOrder(e.Expression, depth+1)

	case *counted:
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
		if key, ok := e.KeyExpr.(*hclsyntax.ScopeTraversalExpr); ok && key.Traversal.RootName() == e.KeyVar &&
			len(key.Traversal) == 1 {
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
		if t.RootName() == "var" {
			return s.variableOrder(step.Name, depth)
		}

		if a, ok := s.decl.locals[step.Name]; ok && t.RootName() == "local" {
			return s.keyOrder(a.Expr, depth+1)
		}

		if d := s.stageBlock(t.RootName(), step.Name); d != nil && d.forEach != nil {
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

// variableOrder is keyOrder for a variable. It uses the module argument, the value given from
// outside the plan, or the default.
func (s *scope) variableOrder(name string, depth int) map[string]int {
	d := s.decl.variables[name]
	if d == nil {
		return nil
	}

	if s.parent != nil {
		if a, ok := s.call.body.Attributes[name]; ok {
			return s.parent.keyOrder(a.Expr, depth+1)
		}
	} else if g, ok := s.l.rootVars[name]; ok {
		expr := g.expr
		if expr == nil {
			var diags hcl.Diagnostics
			if expr, diags = s.l.src.expression(g.text, g.rng.Filename); diags.HasErrors() {
				return nil
			}
		}

		return s.keyOrder(expr, depth+1)
	}

	if d.written == nil {
		return nil
	}

	return s.keyOrder(d.written, depth+1)
}

// itemOf returns the expression that defines the value of one for_each key, and the module that
// contains it. If the item cannot be determined, it returns the expression that produces all items,
// and item is false.
func (s *scope) itemOf(expr hcl.Expression, key string, depth int) (from *scope, found hcl.Expression, item bool) {
	if depth > 8 {
		return s, expr, false
	}

	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return s.itemOf(e.Expression, key, depth+1)

	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			if k, diags := s.eval(item.KeyExpr, nil); !diags.HasErrors() && k.IsKnown() && !k.IsNull() &&
				k.Type() == cty.String && k.AsString() == key {
				return s, item.ValueExpr, true
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

	return s, expr, false
}

// outputOrder is keyOrder for a module output.
func (s *scope) outputOrder(module string, step hcl.Traverser, depth int) map[string]int {
	a, ok := step.(hcl.TraverseAttr)
	d, declared := s.decl.blocks["module"][module]
	if !ok || !declared {
		return nil
	}

	children, diags := s.modulesNamed(d)
	if diags.HasErrors() || len(children) != 1 || children[0].decl.outputs[a.Name] == nil {
		return nil
	}

	return children[0].keyOrder(children[0].decl.outputs[a.Name].value, depth+1)
}
