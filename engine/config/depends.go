package config

import (
	"github.com/hashicorp/hcl/v2"
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
	return w.add(newUses())
}

// add adds the stages that the items of depends_on refer to, and returns the errors of items without a stage. A
// module stands for every stage in it, including those that no output refers to.
func (w waits) add(used *uses) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, item := range w.items() {
		var v cty.Value
		var more hcl.Diagnostics
		own := w.scope.l.collect(func() { v, more = w.scope.eval(item, w.each) })
		diags = append(diags, more...)
		module := ""
		refs, _ := w.scope.references(item, w.each, nil)
		for _, r := range refs {
			if r.root != "module" || r.attr != "" || !isReference(item) {
				continue
			}
			module = r.name
			for _, c := range w.scope.referred(r) {
				for _, in := range c.allInstances() {
					own.stages[in.Address] = true
				}
			}
		}

		used.add(own)
		if len(own.stages) > 0 || more.HasErrors() || !v.IsKnown() || v.IsNull() ||
			v.CanIterateElements() && v.LengthInt() == 0 {
			continue // a stage, disabled, not known yet, or an empty collection
		}

		text := "depends_on: " + noStage(v)
		if module != "" {
			text = "module." + module + " has no stages"
		}
		stage.AddError(&diags, item.Range(), "Nothing to wait for", "%s.", text)
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
