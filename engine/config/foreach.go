package config

import (
	"slices"
	"sort"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// forEachKeys returns the keys and values of a for_each in the order in which they are written.
func (s *scope) forEachKeys(d *blockDecl, v cty.Value) ([]*eachValue, hcl.Diagnostics) {
	rng, t := d.forEach.Range(), v.Type()
	isList := t.IsSetType() || t.IsListType() || t.IsTupleType()
	unknown := func(e cty.Value) bool { return !e.IsKnown() }
	if unknown(v) || isList && !v.IsNull() && slices.ContainsFunc(v.AsValueSlice(), unknown) {
		if s.l.failures > 0 {
			return nil, nil // a consequence of an error that is already reported
		}
		return nil, errorAt(rng, "for_each depends on a stage",
			"The keys must be known before anything runs. Put the keys into a local and the values into a map over them.")
	}

	if v.IsNull() {
		return nil, errorAt(rng, "Invalid for_each",
			"The value is null; a map, an object, a set or a list of strings is needed.")
	}

	var out []*eachValue
	add := func(k string, v cty.Value) {
		out = append(out, &eachValue{key: k, value: v, seen: s.l.finished, from: s, expr: d.forEach})
	}

	switch {
	case stage.IsRef(v):
		return nil, errorAt(rng, "Invalid for_each",
			"This is one stage; for_each needs a map or a list. For one stage, remove for_each.")

	case t.IsObjectType() || t.IsMapType():
		for k, e := range v.Elements() {
			add(k.AsString(), e)
		}

		if order := s.keyOrder(d.forEach); order != nil {
			sort.SliceStable(out, func(i, j int) bool { return order[out[i].key] < order[out[j].key] })
		}

	case isList:
		seen := map[string]bool{}
		for _, e := range v.Elements() {
			if e.IsNull() || e.Type() != cty.String {
				return nil, errorAt(rng, "Invalid for_each",
					"The elements of a list or set must be known strings: they become the keys. Use a map to give each key a value.")
			}

			k := e.AsString()
			if seen[k] {
				return nil, errorAt(rng, "Duplicate for_each key",
					"The key %q occurs twice.", k)
			}

			seen[k] = true
			add(k, e)
		}

	default:
		return nil, errorAt(rng, "Invalid for_each",
			"A map, an object, a set or a list of strings is needed, not %s.", t.FriendlyName())
	}

	return out, nil
}

// keyOrder returns the source order of the keys of an object literal, which object values do not
// preserve. It follows locals, variables, module outputs and the for_each of other stages. It
// returns nil if the order is unknown; keys are then sorted by name.
func (s *scope) keyOrder(expr hcl.Expression) map[string]int {
	order := map[string]int{}
	from, expr := s.literal(expr)
	switch e := expr.(type) {
	case *hclsyntax.ForExpr: // { for k, v in ... : k => ... } keeps the keys
		if key, ok := e.KeyExpr.(*hclsyntax.ScopeTraversalExpr); ok && len(key.Traversal) == 1 &&
			key.Traversal.RootName() == e.KeyVar {
			return from.keyOrder(e.CollExpr)
		}

	case *hclsyntax.ObjectConsExpr:
		for i, item := range e.Items {
			key, ok := from.keyText(item.KeyExpr)
			if !ok {
				return nil
			}
			order[key] = i
		}
		return order

	case *hclsyntax.ScopeTraversalExpr:
		root, name := named(e.Traversal)
		if d := from.stageBlock(root, name); d != nil && d.forEach != nil && len(e.Traversal) == 2 {
			ins, _ := from.instancesOf(d)
			for i, in := range ins {
				order[in.Key] = i
			}
			return order
		}
	}

	return nil
}

// itemOf returns the expression that defines the value of one for_each key, and the module that
// contains it. If the item cannot be determined, it returns the expression that produces all items,
// and item is false.
func (s *scope) itemOf(expr hcl.Expression, key string) (from *scope, found hcl.Expression, item bool) {
	from, found = s.literal(expr)
	if obj, ok := found.(*hclsyntax.ObjectConsExpr); ok {
		for _, item := range obj.Items {
			if k, ok := from.keyText(item.KeyExpr); ok && k == key {
				return from, item.ValueExpr, true
			}
		}
	}
	return from, found, false
}

func (s *scope) keyText(expr hcl.Expression) (string, bool) {
	k, diags := s.eval(expr, nil)
	if diags.HasErrors() || !stage.IsText(k) {
		return "", false
	}
	return k.AsString(), true
}

// literal follows an expression to the object literal that defines its value, as far as possible. It
// returns the expression that it reached and the module that contains it. The value was evaluated before, so the
// references have no cycle.
func (s *scope) literal(expr hcl.Expression) (*scope, hcl.Expression) {
	switch e := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return s.literal(e.Expression)

	case *hclsyntax.ScopeTraversalExpr:
		if from, next := s.definition(e.Traversal); next != nil {
			return from.literal(next)
		}
	}

	return s, expr
}

// definition returns the expression that a reference to a local, a variable or a module output stands
// for, or nil.
func (s *scope) definition(t hcl.Traversal) (*scope, hcl.Expression) {
	root, name := named(t)
	switch {
	case root == "local" && len(t) == 2 && s.decl.locals[name] != nil:
		return s, s.decl.locals[name].Expr

	case root == "var" && len(t) == 2 && s.decl.variables[name] != nil:
		if s.parent != nil {
			if a := s.call.body.Attributes[name]; a != nil {
				return s.parent, a.Expr
			}
		} else if g, ok := s.l.rootVars[name]; ok {
			return s, g.expr
		}
		return s, s.decl.variables[name].written

	case root == "module" && len(t) == 3 && s.decl.blocks["module"][name] != nil:
		children, diags := s.modulesNamed(s.decl.blocks["module"][name])
		attr, ok := t[2].(hcl.TraverseAttr)
		if ok && !diags.HasErrors() && len(children) == 1 && children[0].decl.outputs[attr.Name] != nil {
			return children[0], children[0].decl.outputs[attr.Name].value
		}
	}

	return s, nil
}
