package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// waits is one depends_on with the scope in which it is written.
type waits struct {
	scope *scope
	expr  hcl.Expression
	each  *eachValue
}

// dependsOn returns the depends_on expressions that apply to the instance: its own and those of the
// enclosing modules.
func (in *Instance) dependsOn() []waits {
	var out []waits
	if in.decl.dependsOn != nil {
		out = append(out, waits{in.scope, in.decl.dependsOn, in.each})
	}

	for sc := in.scope; sc.parent != nil; sc = sc.parent {
		if sc.call.dependsOn != nil {
			out = append(out, waits{sc.parent, sc.call.dependsOn, sc.each})
		}
	}

	return out
}

// items returns the elements of a literal list, or the whole expression if it is not a literal
// list.
func (w waits) items() []hcl.Expression {
	if list, diags := hcl.ExprList(w.expr); !diags.HasErrors() {
		return list
	}
	return []hcl.Expression{w.expr}
}

// check reports items of depends_on that do not refer to a stage. Without it, a misspelt preflight
// would silently protect nothing.
func (w waits) check() hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, item := range w.items() {
		v, more := w.scope.eval(item, w.each)
		diags = append(diags, more...)
		if more.HasErrors() || !v.IsKnown() || v.IsNull() || (v.CanIterateElements() && v.LengthInt() == 0) {
			continue // disabled, not known yet, or an empty collection
		}

		if len(refAddresses(v)) > 0 {
			continue
		}

		t := newTracer()
		t.waits(waits{w.scope, item, w.each})
		if len(t.found) > 0 {
			continue
		}

		if d := w.scope.moduleNamed(item); d != nil {
			stage.AddError(&diags, item.Range(), "Nothing to wait for",
				"module.%s has no stages.", d.name)
			continue
		}

		stage.AddError(&diags, item.Range(), "Nothing to wait for", "depends_on: %s.", noStage(v))
	}

	return diags
}

// noStage returns a description of v, which is not a stage.
func noStage(v cty.Value) string {
	_, err := stage.RefOf(v)
	if t := v.Type(); t.IsTupleType() || t.IsListType() || t.IsSetType() {
		_, err = stage.RefsOf(v)
	}
	if err == nil {
		panic("config: a reference to a stage was taken for none")
	}

	return err.Error()
}

// moduleNamed returns the module block that an expression refers to as a whole (module.NAME or
// module.NAME["key"]), or nil.
func (s *scope) moduleNamed(expr hcl.Expression) *blockDecl {
	if ix, ok := expr.(*hclsyntax.IndexExpr); ok {
		expr = ix.Collection
	}
	e, ok := expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || e.Traversal.RootName() != "module" || len(e.Traversal) < 2 || len(e.Traversal) > 3 {
		return nil
	}

	step, ok := e.Traversal[1].(hcl.TraverseAttr)
	if !ok {
		return nil
	}

	if len(e.Traversal) == 3 {
		if _, ok := e.Traversal[2].(hcl.TraverseIndex); !ok {
			return nil
		}
	}

	return s.decl.blocks["module"][step.Name]
}

// waits collects the stages of a depends_on. A reference to a whole module adds every stage in it,
// including those that no output refers to.
func (t *tracer) waits(w waits) {
	for _, item := range w.items() {
		t.expr(w.scope, item, w.each, nil)
		d := w.scope.moduleNamed(item)
		if d == nil {
			continue
		}

		refs, _ := w.scope.references(item, w.each, nil)
		children, _ := w.scope.modulesNamed(d)
		for _, r := range refs {
			for _, c := range children {
				if r.root != "module" || r.name != d.name || (r.key != nil && c.each != nil && c.each.key != *r.key) {
					continue
				}
				for _, in := range c.allInstances() {
					t.found[in.Address] = true
				}
			}
		}
	}
}
