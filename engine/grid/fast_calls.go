package grid

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// fastCall compiles the functions that grids use most, or returns nil.
func (sp *space) fastCall(n *hclsyntax.FunctionCallExpr) fastNode {
	if (n.Name == "floor" || n.Name == "ceil") && len(n.Args) == 1 {
		if div, ok := n.Args[0].(*divNode); ok && div.Op == hclsyntax.OpDivide {
			if a, b := sp.fast(div.LHS), sp.fast(div.RHS); a != nil && b != nil {
				return fastRounded(a, b, n.Name == "ceil")
			}
			return nil
		}
	}
	args := make([]fastNode, len(n.Args))
	for i, a := range n.Args {
		if n.Name == "contains" && i == 0 {
			if list, ok := a.(*hclsyntax.TupleConsExpr); ok {
				args[i] = sp.fastTuple(list)
			}
		}

		if args[i] == nil {
			args[i] = sp.fast(a)
		}
		if args[i] == nil {
			return nil
		}
	}

	switch {
	case n.Name == "contains" && len(args) == 2:
		return fastContains(args[0], args[1])

	case n.Name == "ceil_div" && len(args) == 2:
		return fastRounded(args[0], args[1], true)

	case (n.Name == "min" || n.Name == "max") && len(args) > 0:
		return fastExtreme(args, n.Name == "max")

	case (n.Name == "floor" || n.Name == "ceil") && len(args) == 1:
		return func() fastVal {
			if v := args[0](); v.kind == fastInt || v.kind == fastUnknown {
				return v
			}
			return unsure
		}
	}

	return nil
}

// fastRounded computes the quotient of a non-negative and a positive integer, rounded down or up.
func fastRounded(a, b fastNode, up bool) fastNode {
	return func() fastVal {
		x, y := a(), b()
		if x.kind != fastInt || y.kind != fastInt || x.i < 0 || y.i <= 0 {
			return unsure
		}

		q := x.i / y.i
		if up && x.i%y.i != 0 {
			q++
		}

		return fastVal{kind: fastInt, i: q}
	}
}

func fastExtreme(args []fastNode, largest bool) fastNode {
	return func() fastVal {
		var best fastVal
		for i, a := range args {
			v := a()
			if v.kind != fastInt {
				return unsure
			}
			if i == 0 || (v.i > best.i) == largest {
				best = v
			}
		}

		return best
	}
}

// fastTuple compiles a list literal that contains names.
func (sp *space) fastTuple(n *hclsyntax.TupleConsExpr) fastNode {
	elems := make([]fastNode, len(n.Exprs))
	for i, e := range n.Exprs {
		if elems[i] = sp.fast(e); elems[i] == nil {
			return nil
		}
	}

	return func() fastVal {
		out := make([]fastVal, len(elems))
		for i, e := range elems {
			out[i] = e()
		}
		return fastVal{kind: fastList, list: out}
	}
}

func fastContains(list, elem fastNode) fastNode {
	return func() fastVal {
		l, e := list(), elem()
		if l.kind != fastList || len(l.list) == 0 || (e.kind != fastInt && e.kind != fastString && e.kind != fastBool) {
			return unsure
		}

		found := false
		for _, x := range l.list {
			if x.kind != e.kind {
				return unsure
			}
			found = found || x.i == e.i
		}

		return boolVal(found)
	}
}

// cty converts an integer or bool result to a cty value.
func (v fastVal) cty() cty.Value {
	switch v.kind {
	case fastInt:
		return cty.NumberIntVal(v.i)
	case fastBool:
		return cty.BoolVal(v.i == 1)
	}
	return cty.NilVal
}

// quick returns the result of the fast path, or unsure if HCL must evaluate p.
func (p *prog) quick() fastVal {
	if p.fast == nil {
		return unsure
	}
	return p.fast()
}
