package config

import (
	"slices"

	"github.com/hashicorp/hcl/v2"

	"aicplan/engine/stage"
)

// Unused returns a warning for each variable, local and part that a plan or one of its modules
// declares and no expression of that module uses.
func (c *Config) Unused() hcl.Diagnostics {
	defer c.lock()()
	if c.root == nil {
		return nil
	}

	var diags hcl.Diagnostics
	for _, path := range sortedKeys(c.l.modules) {
		diags = append(diags, c.l.modules[path].unused()...)
	}

	return diags
}

// unused returns warnings for names that no expression of the module uses.
func (m *moduleDecl) unused() hcl.Diagnostics {
	used := map[string]bool{}
	for _, e := range m.expressions() {
		for _, t := range e.Variables() {
			if root, name := named(t); name != "" {
				used[root+"."+name] = true
			}
		}
	}

	var diags hcl.Diagnostics
	note := func(what, ref string, at hcl.Range, more string) {
		if !used[ref] {
			diags = append(diags, stage.WarningAt(at, "Unused "+what,
				"Nothing in this module uses %s%s. Remove it, or use it.", ref, more)...)
		}
	}

	for name, v := range m.variables {
		note("variable", "var."+name, v.rng, ", so a value given for it changes nothing")
	}

	for name, a := range m.locals {
		note("local", "local."+name, a.NameRange, "")
	}

	for name, p := range m.blocks["part"] {
		note("part", "part."+name, p.rng(), "")
	}

	return byPlace(diags)
}

// expressions returns all expressions of the module, except those in which the validation of a
// variable refers to the variable itself.
func (m *moduleDecl) expressions() []hcl.Expression {
	var out []hcl.Expression
	for _, a := range m.locals {
		out = append(out, a.Expr)
	}

	for _, o := range m.outputs {
		out = append(out, o.value)
	}

	for name, v := range m.variables {
		for _, check := range v.validations {
			for _, e := range []hcl.Expression{check.Condition, check.ErrorMessage} {
				if e != nil && !slices.ContainsFunc(e.Variables(), func(t hcl.Traversal) bool {
					root, of := named(t)
					return root == "var" && of == name
				}) {
					out = append(out, e)
				}
			}
		}
	}

	for _, blocks := range m.blocks {
		for _, d := range blocks {
			out = append(out, bodyExpressions(d.block.Body)...)
		}
	}

	return out
}

// named splits a reference such as var.x. The name is "" if the traversal has only a root.
func named(t hcl.Traversal) (root, name string) {
	if len(t) < 2 {
		return t.RootName(), ""
	}
	step, _ := t[1].(hcl.TraverseAttr)
	return t.RootName(), step.Name
}
