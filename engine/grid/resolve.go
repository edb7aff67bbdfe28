package grid

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// resolve binds the names in expressions, sorts derived values by dependency, finds the types of
// all names and runs the static checks. outer is the grid that a sweep belongs to, or nil.
func (d *decoder) resolve(spec *Spec, outer *Spec) {
	spec.names = map[string]*nameInfo{}
	if outer != nil {
		for name, info := range outer.names {
			c := *info
			c.outer = true
			spec.names[name] = &c
		}
	}

	d.nameDims(spec)
	for _, set := range spec.Sets {
		for _, v := range set.Derives {
			d.nameDerived(spec, v)
		}
	}

	if d.diags.HasErrors() {
		return
	}

	bound := map[string]bool{}
	for name := range spec.names {
		bound[name] = true
	}

	done := map[*Expr]bool{}
	for _, set := range spec.Sets {
		for _, u := range spec.uses(set) {
			if !done[u.expr] {
				done[u.expr] = true
				d.bind(u.expr, spec, bound)
			}
			d.checkBound(u, spec, set)
		}
	}

	if d.diags.HasErrors() {
		return
	}

	for _, set := range spec.Sets {
		d.orderDerives(set)
	}

	if d.diags.HasErrors() {
		return
	}

	d.lint(spec)
}

// use is one expression that is evaluated for a set.
type use struct {
	expr *Expr
	what string // "filter \"x\""
}

// uses returns the expressions that are evaluated for a set.
func (s *Spec) uses(set *Set) []use {
	var out []use
	for _, v := range set.Derives {
		out = append(out, use{v.expr, fmt.Sprintf("derive %q", v.Name)})
	}

	for _, f := range set.Filters {
		out = append(out, use{f.keep, fmt.Sprintf("filter %q", f.Name)})
	}

	for _, of := range s.ranked() {
		out = append(out, use{of.expr, "distinct"})
	}

	return out
}

// nameDims records the names that axes and rows bind, with their values.
func (d *decoder) nameDims(spec *Spec) {
	for _, dim := range spec.Dims() {
		for f, name := range dim.Fields {
			info := d.name(spec, name, dim.Range)
			if info == nil {
				continue
			}

			t := columnType(dim.Values[f])
			if dim.types != nil {
				t = dim.types[f]
			}

			d.merge(info, t, dim.Range)
			info.static = info.static && dim.static
			for _, v := range dim.Values[f] {
				if v.IsNull() {
					info.null = true
				} else if text := canonical(v); v.Type().IsPrimitiveType() && !info.values[text] {
					info.values[text] = true
					info.samples = append(info.samples, text)
				}
			}
		}
	}
}

func columnType(vals []cty.Value) cty.Type {
	for _, v := range vals {
		if !v.IsNull() {
			if !v.Type().IsPrimitiveType() && !v.Type().IsListType() {
				return cty.DynamicPseudoType
			}
			return v.Type()
		}
	}
	return cty.DynamicPseudoType
}

func (d *decoder) nameDerived(spec *Spec, v *Derive) {
	if info := d.name(spec, v.Name, v.Range); info != nil {
		info.derived, info.null, info.static = true, true, false
	}
}

// name returns the info of a name and creates it if needed. It reports an error and returns nil if
// the name belongs to the case around a sweep.
func (d *decoder) name(spec *Spec, name string, rng hcl.Range) *nameInfo {
	info := spec.names[name]
	if info == nil {
		info = &nameInfo{name: name, typ: cty.DynamicPseudoType, values: map[string]bool{}, static: true, rng: rng}
		spec.names[name] = info
	}
	if info.outer {
		d.errorf(rng, "Duplicate name",
			"%q is bound by the grid at %s; a sweep's names must differ from those of its case.", name, place(info.rng))
		return nil
	}

	return info
}

// merge unifies the type of a name over all sets.
func (d *decoder) merge(info *nameInfo, t cty.Type, rng hcl.Range) {
	switch {
	case t == cty.DynamicPseudoType || t.Equals(info.typ):
	case info.typ == cty.DynamicPseudoType:
		info.typ = t
	default:
		d.errorf(rng, "Mixed types", "%q is %s here and %s at %s; a name has one type in all sets.", info.name,
			t.FriendlyName(), info.typ.FriendlyName(), place(info.rng))
	}
}

// bind records which of the grid's names an expression uses, and builds the evaluation context for
// all other references.
func (d *decoder) bind(e *Expr, spec *Spec, bound map[string]bool) {
	unknown := false
	for _, t := range e.src.Variables() {
		root := t.RootName()
		if bound[root] {
			e.names = union(e.names, root)
			continue
		}

		if len(t) == 1 {
			unknown = true
			names := slices.Sorted(maps.Keys(spec.names))
			d.errorf(t.SourceRange(), "Unknown name", "Nothing in this grid is called %q; it binds %s.%s", root,
				shortList(names), textutil.DidYouMean(root, names))
		}
	}

	if unknown {
		return
	}

	ctx, diags := e.eval.Context([]hcl.Expression{e.src}, bound)
	d.diags = append(d.diags, located(diags, e.src.Range())...)
	e.ctx = ctx
}

// checkBound reports names that only other sets bind.
func (d *decoder) checkBound(u use, spec *Spec, set *Set) {
	for _, name := range u.expr.names {
		if info := spec.names[name]; info.outer || slices.Contains(set.names(), name) {
			continue
		}
		d.errorf(u.expr.src.Range(), "Name without a value",
			"%s uses %q, which has no value in %s. Move it into the sets that bind %q, or derive %q there.",
			capital(u.what), name, set.label(), name, name)
	}
}

// orderDerives sorts the derived values of a set so that each one uses only earlier ones.
func (d *decoder) orderDerives(set *Set) {
	const (
		visiting = 1
		finished = 2
	)
	state := map[string]int{}
	var out []*Derive
	var path []string
	var visit func(v *Derive) bool

	visit = func(v *Derive) bool {
		switch state[v.Name] {
		case finished:
			return true
		case visiting:
			for path[0] != v.Name {
				path = path[1:]
			}
			d.errorf(v.expr.src.Range(), "Circular derive", "%q depends on itself: %s.", v.Name,
				strings.Join(append(path, v.Name), " -> "))
			return false
		}
		state[v.Name] = visiting
		path = append(path, v.Name)

		for _, name := range v.expr.names {
			if next := set.derive(name); next != nil && !visit(next) {
				return false
			}
		}

		path = path[:len(path)-1]
		state[v.Name] = finished
		out = append(out, v)
		return true
	}

	for _, v := range set.Derives {
		path = nil
		if !visit(v) {
			return
		}
	}

	set.Derives = out
}

func shortList(names []string) string { return textutil.First(names, 12, ", ") }
func capital(s string) string         { return strings.ToUpper(s[:1]) + s[1:] }
