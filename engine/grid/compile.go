package grid

import (
	"reflect"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// prog is an expression prepared for repeated evaluation. HCL evaluates it (engine/stage makes a division by zero an
// error), but some nodes are replaced: the grid's names read a slot instead of a map, and parts without names are
// folded into literals.
type prog struct {
	expr *Expr
	vars []*variable
	// source is the expression as written; node is the rewritten form.
	source, node hclsyntax.Expression
	ctx          *hcl.EvalContext
	// named is true if the expression has parts that look up names in ctx.
	named   bool
	logical bool     // has &&, ||, ! or ?:, so the result may be known before all names are bound
	fast    fastNode // nil if only HCL can evaluate it
	known   *memo[answer]
}

// varNode reads the current value of a variable. Every method except Value comes from the original
// expression.
type varNode struct {
	hclsyntax.Expression
	v *variable
}

// Value implements hcl.Expression.
func (n *varNode) Value(*hcl.EvalContext) (cty.Value, hcl.Diagnostics) { return n.v.slot, nil }

// compile returns a prog for node, which is a part of e.
func (sp *space) compile(e *Expr, node hclsyntax.Expression) *prog {
	p := &prog{expr: e, source: node, ctx: e.ctx.NewChild()}
	p.ctx.Variables = map[string]cty.Value{}

	for _, t := range node.Variables() {
		if v := sp.vars[t.RootName()]; v != nil {
			p.vars = union(p.vars, v)
		}
	}
	p.known = newMemo[answer](p.vars)
	p.node = (&rewriter{space: sp, prog: p, ctx: e.ctx}).rewrite(node)
	p.fast = sp.fast(p.node)
	return p
}

type rewriter struct {
	space  *space
	prog   *prog
	ctx    *hcl.EvalContext
	hidden []string // names bound by the enclosing for expressions
}

func (r *rewriter) variable(name string) *variable {
	if slices.Contains(r.hidden, name) {
		return nil
	}
	return r.space.vars[name]
}

// rewrite returns an expression with the same meaning. It never modifies n, because the syntax tree
// is shared. n may be nil.
func (r *rewriter) rewrite(n hclsyntax.Expression) hclsyntax.Expression {
	if n == nil {
		return nil
	}
	out := r.children(n)
	if _, literal := out.(*hclsyntax.LiteralValueExpr); literal || len(r.hidden) > 0 {
		return out
	}

	for _, t := range n.Variables() {
		if r.variable(t.RootName()) != nil {
			return out
		}
	}

	v, diags := out.Value(r.ctx)
	if diags.HasErrors() || !v.IsWhollyKnown() {
		return out
	}

	return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: n.Range()}
}

func (r *rewriter) children(n hclsyntax.Expression) hclsyntax.Expression {
	switch n := n.(type) {
	case *hclsyntax.ParenthesesExpr:
		return r.rewrite(n.Expression)

	case *hclsyntax.ScopeTraversalExpr:
		v := r.variable(n.Traversal.RootName())
		if v == nil {
			return n
		}

		node := &varNode{Expression: n, v: v}
		if len(n.Traversal) == 1 {
			return node
		}

		return &hclsyntax.RelativeTraversalExpr{Source: node, Traversal: n.Traversal[1:], SrcRange: n.SrcRange}

	case *hclsyntax.BinaryOpExpr:
		r.prog.logical = r.prog.logical || n.Op == hclsyntax.OpLogicalAnd || n.Op == hclsyntax.OpLogicalOr
		return r.parts(n)

	case *hclsyntax.ConditionalExpr:
		r.prog.logical = true
		return r.parts(n)

	case *hclsyntax.UnaryOpExpr, *hclsyntax.FunctionCallExpr, *hclsyntax.TupleConsExpr, *hclsyntax.IndexExpr,
		*hclsyntax.RelativeTraversalExpr, *hclsyntax.TemplateExpr, *hclsyntax.TemplateWrapExpr:
		return r.parts(n)

	case *hclsyntax.ForExpr:
		r.prog.logical = true
		c := *n
		c.CollExpr = r.rewrite(n.CollExpr)
		r.hidden = append(r.hidden, n.KeyVar, n.ValVar)
		c.KeyExpr, c.ValExpr, c.CondExpr = r.rewrite(n.KeyExpr), r.rewrite(n.ValExpr), r.rewrite(n.CondExpr)
		r.hidden = r.hidden[:len(r.hidden)-2]

		return &c

	case *hclsyntax.LiteralValueExpr:
		return n
	}
	// Objects, splats and the rarer templates look up their names in the context.
	r.prog.named, r.prog.logical = true, true
	return n
}

// parts returns a copy of n, a pointer to a struct, whose fields with expressions are rewritten.
func (r *rewriter) parts(n hclsyntax.Expression) hclsyntax.Expression {
	copied := reflect.New(reflect.TypeOf(n).Elem())
	copied.Elem().Set(reflect.ValueOf(n).Elem())
	for i := range copied.Elem().NumField() {
		switch field := copied.Elem().Field(i).Addr().Interface().(type) {
		case *hclsyntax.Expression:
			*field = r.rewrite(*field)
		case *[]hclsyntax.Expression:
			*field = slices.Clone(*field)
			for j, e := range *field {
				(*field)[j] = r.rewrite(e)
			}
		}
	}

	return copied.Interface().(hclsyntax.Expression)
}

// conjuncts splits an expression at its top-level && operators.
func conjuncts(e hclsyntax.Expression) []hclsyntax.Expression {
	if b, ok := unparen(e).(*hclsyntax.BinaryOpExpr); ok && b.Op == hclsyntax.OpLogicalAnd {
		return append(conjuncts(b.LHS), conjuncts(b.RHS)...)
	}
	return []hclsyntax.Expression{e}
}
