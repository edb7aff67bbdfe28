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

// add adds the stages that the items of depends_on refer to, and returns the errors of items without a stage:
// otherwise a misspelt preflight would silently protect nothing. A module stands for every stage in it, including
// those that no output refers to.
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

		if module != "" {
			stage.AddError(&diags, item.Range(), "Nothing to wait for", "module.%s has no stages.", module)
		} else if _, err := stage.RefsOf(v); err != nil {
			stage.AddError(&diags, item.Range(), "Nothing to wait for", "depends_on: %s.", err)
		}
	}

	return diags
}
