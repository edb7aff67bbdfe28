package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Unused warns of what a plan and its modules declare and nothing uses:
// variables, locals and parts that their own module does not mention, and
// outputs of modules that no module block reads. Modules are shared, so an
// output counts as read when a plan in the same folder reads it.
func (c *Config) Unused() hcl.Diagnostics {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == nil {
		return nil
	}
	var diags hcl.Diagnostics
	reads := outputReads{}
	for _, path := range sortedKeys(c.l.modules) {
		decl := c.l.modules[path]
		diags = append(diags, decl.unused()...)
		for _, d := range decl.modules {
			for _, source := range d.sources {
				reads.add(decl, d.name, source)
			}
		}
	}
	unread := c.unread(reads)
	if len(unread) > 0 {
		if beside := c.besides(); len(beside) > 0 {
			for _, path := range beside {
				reads.plan(c.l, path)
			}
			unread = c.unread(reads)
		}
	}
	return append(diags, unread...)
}

// unused warns of names that no expression of the module mentions.
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
			diags = append(diags, warnAt(at, "Unused "+what, fmt.Sprintf("Nothing in this module uses %s%s. Remove it, or use it.", ref, more)))
		}
	}
	for name, v := range m.variables {
		note("variable", "var."+name, v.rng, ", so a value given for it changes nothing")
	}
	for name, a := range m.locals {
		note("local", "local."+name, a.NameRange, "")
	}
	for name, p := range m.parts {
		note("part", "part."+name, p.rng(), "")
	}
	return byPlace(diags)
}

// expressions are all that stand in the module, but for what a variable's
// validation says of the variable itself.
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
	for _, blocks := range []map[string]*blockDecl{m.modules, m.systems, m.runtimes, m.parts} {
		for _, d := range blocks {
			out = append(out, bodyExpressions(d.block.Body)...)
		}
	}
	for _, named := range []map[string]map[string]*blockDecl{m.stages, m.services} {
		for _, blocks := range named {
			for _, d := range blocks {
				out = append(out, bodyExpressions(d.block.Body)...)
			}
		}
	}
	return out
}

// named takes var.x apart; the name is "" in what is no such reference.
func named(t hcl.Traversal) (root, name string) {
	if len(t) < 2 {
		return t.RootName(), ""
	}
	step, _ := t[1].(hcl.TraverseAttr)
	return t.RootName(), step.Name
}

// outputReads says which outputs of a module are read, by the module's
// absolute path. The name "" means all of them.
type outputReads map[string]map[string]bool

// add notes what a module reads of the child that its module block calls.
func (r outputReads) add(m *moduleDecl, block, source string) {
	if r[source] == nil {
		r[source] = map[string]bool{}
	}
	for _, e := range m.expressions() {
		for _, t := range e.Variables() {
			if root, name := named(t); root == "module" && name == block {
				r[source][outputOf(t)] = true
			}
		}
	}
}

// outputOf is the output that module.NAME.OUTPUT or module.NAME["key"].OUTPUT
// reads; "" where it is the whole module.
func outputOf(t hcl.Traversal) string {
	for _, step := range t[2:] {
		switch step := step.(type) {
		case hcl.TraverseIndex:
			continue
		case hcl.TraverseAttr:
			return step.Name
		}
		break
	}
	return ""
}

// plan adds what another plan and its modules read. The plan is read, not
// evaluated: a module whose source is no plain text is passed over.
func (r outputReads) plan(like *loader, path string) {
	l := &loader{
		opts: like.opts, kinds: like.kinds, src: newSources(filepath.Dir(path)), functions: map[string]function.Function{},
		modules: map[string]*moduleDecl{}, exprs: map[hclsyntax.Node]exprParts{},
	}
	var walk func(path string)
	walk = func(path string) {
		if _, seen := l.modules[path]; seen {
			return
		}
		decl, _ := l.loadModule(path)
		l.modules[path] = decl
		if decl == nil {
			return
		}
		for _, d := range decl.modules {
			a, ok := d.body.Attributes["source"]
			if !ok {
				continue
			}
			v, diags := a.Expr.Value(nil)
			if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
				continue
			}
			source := filepath.Join(decl.dir, v.AsString())
			r.add(decl, d.name, source)
			walk(source)
		}
	}
	walk(path)
}

// unread warns of outputs that nothing reads. Those of the plan itself are its
// results.
func (c *Config) unread(reads outputReads) hcl.Diagnostics {
	var diags hcl.Diagnostics
	for _, path := range sortedKeys(c.l.modules) {
		if path == c.root.source {
			continue
		}
		for _, name := range c.l.modules[path].outOrder {
			if !reads[path][""] && !reads[path][name] {
				diags = append(diags, warnAt(c.l.modules[path].outputs[name].rng, "Unused output",
					fmt.Sprintf("Nothing reads the output %q of this module, neither this plan nor another plan in its folder. Remove it, or use it.", name)))
			}
		}
	}
	return diags
}

// besides lists the plans in the same folder. A plan that is a folder has none.
func (c *Config) besides() []string {
	if c.root.source == c.Dir {
		return nil
	}
	files, err := planFiles(c.Dir)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(files, func(f string) bool { return f == c.root.source || strings.HasSuffix(f, autoVarsSuffix) })
}
