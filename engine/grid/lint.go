package grid

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// lint evaluates every expression with unknown axes and reports errors that HCL would accept
// silently, such as comparing a number with text.
func (d *decoder) lint(spec *Spec) {
	l := &linter{spec: spec, seen: map[string]bool{}}
	var derives []*Derive
	for _, set := range spec.Sets {
		derives = union(derives, set.Derives...)
	}
	for _, v := range derives {
		d.merge(spec.names[v.Name], l.typeOf(v.expr, v.expr.src), v.expr.src.Range())
		l.expr(v.expr)
	}

	for _, f := range spec.filters {
		l.expr(f.keep)
		if t := l.typeOf(f.keep, f.keep.src); t != cty.DynamicPseudoType && t != cty.Bool {
			l.errorf(f.keep.src.Range(), "Wrong type", "Keep must be true or false; this is %s.", t.FriendlyName())
		}
	}

	for _, of := range spec.ranked() {
		l.expr(of.expr)
		if t := l.typeOf(of.expr, of.expr.src); t != cty.DynamicPseudoType && !t.IsPrimitiveType() {
			l.errorf(of.Range, "Wrong type", "of must be a number, string or bool, not %s.", t.FriendlyName())
		}
	}

	d.diags = append(d.diags, l.diags...)
}

type linter struct {
	spec  *Spec
	cur   *Expr
	ctx   *hcl.EvalContext
	diags hcl.Diagnostics
	seen  map[string]bool
}

// unknowns returns an evaluation context for e in which every name of the grid is an unknown value
// of its type.
func (s *Spec) unknowns(e *Expr) *hcl.EvalContext {
	ctx := e.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{}
	for _, name := range e.names {
		ctx.Variables[name] = s.names[name].unknown()
	}
	return ctx
}

func (n *nameInfo) unknown() cty.Value {
	if n.typ == cty.DynamicPseudoType {
		return cty.DynamicVal
	}
	v := cty.UnknownVal(n.typ)
	if !n.null {
		v = v.RefineNotNull()
	}

	return v
}

func (l *linter) typeOf(e *Expr, node hcl.Expression) cty.Type {
	v, diags := node.Value(l.spec.unknowns(e))
	if diags.HasErrors() || (v.IsKnown() && v.IsNull()) {
		return cty.DynamicPseudoType
	}
	return v.Type()
}

func (l *linter) errorf(rng hcl.Range, summary, format string, args ...any) {
	l.report(errorAt(rng, summary, format, args...))
}

// report adds a diagnostic unless one with the same range and summary exists.
func (l *linter) report(diag *hcl.Diagnostic) {
	rng := l.cur.src.Range()
	if diag.Subject != nil {
		rng = *diag.Subject
	} else {
		diag.Subject = rng.Ptr()
	}

	key := rng.String() + diag.Summary
	if !l.seen[key] {
		l.seen[key] = true
		if diag.Expression == nil {
			diag.Expression, diag.EvalContext = l.cur.src, l.ctx
		}
		l.diags = append(l.diags, diag)
	}
}

func (l *linter) expr(e *Expr) {
	l.cur, l.ctx = e, l.spec.unknowns(e)
	l.node(e.src)
}

// node checks the children first: HCL drops the errors of one side of && and || if both are
// unknown, so evaluating only the whole expression would miss them. It returns true if the node can
// be evaluated.
func (l *linter) node(n hclsyntax.Expression) bool {
	ok := true
	child := func(e hclsyntax.Expression) {
		ok = l.node(e) && ok
	}

	switch n := n.(type) {
	case *hclsyntax.ParenthesesExpr:
		return l.node(n.Expression)

	case *hclsyntax.BinaryOpExpr:
		child(n.LHS)
		child(n.RHS)
		ok = ok && l.binary(n)
		if n.Op == hclsyntax.OpLogicalAnd || n.Op == hclsyntax.OpLogicalOr {
			return ok
		}

	case *hclsyntax.UnaryOpExpr:
		child(n.Val)
		want := cty.Number
		if n.Op == hclsyntax.OpLogicalNot {
			want = cty.Bool
		}
		ok = ok && l.operand(n.Val, want)

	case *hclsyntax.ConditionalExpr:
		child(n.Condition)
		child(n.TrueResult)
		child(n.FalseResult)

	case *hclsyntax.FunctionCallExpr:
		if n.Name == "try" || n.Name == "can" {
			break // try and can are meant for arguments with errors
		}

		for _, a := range n.Args {
			child(a)
		}

		if ok && n.Name == "contains" && len(n.Args) == 2 {
			ok = l.containsTypes(n)
			l.containsLiterals(n)
		}

	case *hclsyntax.TupleConsExpr:
		for _, e := range n.Exprs {
			child(e)
		}

	case *hclsyntax.IndexExpr:
		child(n.Collection)
		child(n.Key)
	}

	if !ok {
		return false
	}

	_, diags := n.Value(l.ctx)
	for _, diag := range diags {
		l.report(diag)
	}

	return !diags.HasErrors()
}

// binary checks the operands of one operator.
func (l *linter) binary(n *hclsyntax.BinaryOpExpr) bool {
	switch n.Op {
	case hclsyntax.OpLogicalAnd, hclsyntax.OpLogicalOr:
		left, right := l.operand(n.LHS, cty.Bool), l.operand(n.RHS, cty.Bool)
		return left && right
	case hclsyntax.OpEqual, hclsyntax.OpNotEqual:
		return l.equality(n)
	case hclsyntax.OpDivide, hclsyntax.OpModulo:
		if v, diags := n.RHS.Value(l.ctx); !diags.HasErrors() && v.RawEquals(cty.Zero) {
			l.errorf(n.RHS.Range(), "Division by zero", "The divisor is always 0.")
			return false
		}
	}
	left, right := l.operand(n.LHS, cty.Number), l.operand(n.RHS, cty.Number)
	return left && right
}

// operand reports operands that HCL would convert silently.
func (l *linter) operand(n hclsyntax.Expression, want cty.Type) bool {
	t := l.typeOf(l.cur, n)
	if t == cty.DynamicPseudoType || t == want {
		return true
	}

	hint := ""
	if t == cty.String && want == cty.Number {
		hint = " Text is compared with == and !=, or with contains([...], name), and joined as \"${a}${b}\"."
	}

	l.errorf(n.Range(), "Invalid operand", "This is a %s, but a %s is needed.%s", t.FriendlyName(),
		want.FriendlyName(), hint)
	return false
}

// equality reports comparisons that have the same result for all values.
func (l *linter) equality(n *hclsyntax.BinaryOpExpr) bool {
	a, b := l.typeOf(l.cur, n.LHS), l.typeOf(l.cur, n.RHS)
	if a == cty.DynamicPseudoType || b == cty.DynamicPseudoType {
		return true
	}

	if a.IsPrimitiveType() && b.IsPrimitiveType() && a != b {
		l.errorf(n.SrcRange, "Comparison across types",
			"A %s never equals a %s, so this is always %v. Write both sides in the same type, for example 90 without quotes.",
			a.FriendlyName(), b.FriendlyName(), n.Op == hclsyntax.OpNotEqual)
		return false
	}

	if a.IsPrimitiveType() != b.IsPrimitiveType() {
		l.errorf(n.SrcRange, "Comparison across types",
			"A %s never equals a %s. To ask whether a list contains a value, write contains(list, value).",
			a.FriendlyName(), b.FriendlyName())
		return false
	}

	l.offAxis(n.LHS, n.RHS)
	l.offAxis(n.RHS, n.LHS)
	return true
}

// containsTypes reports lists in which every element has another type than the value.
func (l *linter) containsTypes(n *hclsyntax.FunctionCallExpr) bool {
	if given, _ := n.Args[0].Value(l.ctx); isEmpty(given) {
		return true // the list may be the default of a variable
	}

	list, value := l.typeOf(l.cur, n.Args[0]), l.typeOf(l.cur, n.Args[1])
	var elements []cty.Type
	switch {
	case list.IsTupleType():
		elements = list.TupleElementTypes()
	case list.IsListType() || list.IsSetType():
		elements = []cty.Type{list.ElementType()}
	}

	comparable := func(t cty.Type) bool { return t == value || !t.IsPrimitiveType() }
	if len(elements) == 0 || !value.IsPrimitiveType() || slices.ContainsFunc(elements, comparable) {
		return true
	}

	l.errorf(n.Range(), "Comparison across types",
		"A %s never equals a %s, so this is always false. Write the list in the type of the value.",
		value.FriendlyName(), elements[0].FriendlyName())
	return false
}

// containsLiterals warns about strings in contains(["fp88"], dtype) that dtype never has. It
// ignores numbers, because lists of sizes are often wider than one grid.
func (l *linter) containsLiterals(n *hclsyntax.FunctionCallExpr) {
	if list, ok := unparen(n.Args[0]).(*hclsyntax.TupleConsExpr); ok {
		for _, e := range list.Exprs {
			if v, _ := e.Value(nil); v.Type() == cty.String {
				l.offAxis(n.Args[1], e)
			}
		}
	}
}

// offAxis warns if a name is compared with a literal that it never has. If a variable may narrow the
// axis, only values that look like misspellings are reported.
func (l *linter) offAxis(name, literal hclsyntax.Expression) {
	info := l.bareName(name)
	v, diags := literal.Value(nil)
	if info == nil || info.derived || diags.HasErrors() || v.IsNull() || !v.Type().IsPrimitiveType() ||
		v.Type() == cty.Bool || info.values[canonical(v)] {
		return
	}
	near := nearestValue(v, info.samples)
	if near == "" && !info.static {
		return
	}

	detail := fmt.Sprintf("%q never has the value %s in this grid; it has %s.", info.name, canonical(v),
		shortList(info.samples))
	if near != "" {
		detail += fmt.Sprintf(" Did you mean %s?", near)
	}

	d := warnAt(literal.Range(), "Value not on the axis", "%s", detail)
	d.Expression, d.EvalContext = l.cur.src, l.ctx
	l.report(d)
}

func (l *linter) bareName(n hclsyntax.Expression) *nameInfo {
	t, ok := unparen(n).(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(t.Traversal) != 1 {
		return nil
	}
	return l.spec.names[t.Traversal.RootName()]
}

func unparen(n hclsyntax.Expression) hclsyntax.Expression {
	for {
		p, ok := n.(*hclsyntax.ParenthesesExpr)
		if !ok {
			return n
		}
		n = p.Expression
	}
}

func isEmpty(list cty.Value) bool {
	return list.IsKnown() && !list.IsNull() && list.CanIterateElements() && list.LengthInt() == 0
}
