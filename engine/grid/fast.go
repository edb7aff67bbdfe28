package grid

import (
	"math"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// The fast path computes conditions over 64-bit integers, bools and strings without HCL. HCL
// defines the semantics. The fast path returns a result only if it must equal that of HCL: exact
// integers without overflow, no nulls except in ==, operands of one kind. In all other cases,
// errors included, it returns unsure and HCL evaluates the expression. Property tests compare both.

// fastKind is the type of a fast value.
type fastKind uint8

const (
	fastUnsure  fastKind = iota // HCL must evaluate
	fastUnknown                 // not bound yet
	fastNull
	fastInt
	fastBool
	fastString // i is an id in the space's string table
)

// fastVal is a value of the fast path.
type fastVal struct {
	kind fastKind
	i    int64
}

var (
	unsure  = fastVal{}
	unknown = fastVal{kind: fastUnknown}
)

// fastNode computes a value from the current ids of the variables.
type fastNode func() fastVal

func boolVal(b bool) fastVal {
	if b {
		return fastVal{kind: fastBool, i: 1}
	}
	return fastVal{kind: fastBool}
}

func intVal(i int64, exact bool) fastVal {
	if !exact {
		return unsure
	}
	return fastVal{kind: fastInt, i: i}
}

// fastOf converts a cty value, or returns unsure if the fast path does not support it.
func (sp *space) fastOf(v cty.Value) fastVal {
	switch {
	case v.IsNull():
		return fastVal{kind: fastNull}

	case v.Type() == cty.Number:
		i, acc := v.AsBigFloat().Int64()
		return intVal(i, acc == 0)

	case v.Type() == cty.Bool:
		return boolVal(v.True())

	case v.Type() == cty.String:
		s := v.AsString()
		id, ok := sp.strings[s]
		if !ok {
			id = int64(len(sp.strings))
			sp.strings[s] = id
		}

		return fastVal{kind: fastString, i: id}
	}
	return unsure
}

// fast compiles a rewritten node. It returns nil if only HCL can evaluate some part of it.
func (sp *space) fast(n hclsyntax.Expression) fastNode {
	switch n := n.(type) {
	case *hclsyntax.LiteralValueExpr:
		if v := sp.fastOf(n.Val); v.kind != fastUnsure {
			return func() fastVal { return v }
		}

	case *varNode:
		return fastVariable(n.v)

	case *hclsyntax.BinaryOpExpr:
		if args := sp.fastAll(n.LHS, n.RHS); args != nil {
			return fastBinary(n.Op, args[0], args[1])
		}

	case *hclsyntax.ConditionalExpr:
		if args := sp.fastAll(n.Condition, n.TrueResult, n.FalseResult); args != nil {
			return fastChoice(args[0], args[1], args[2])
		}

	case *hclsyntax.FunctionCallExpr:
		args, apply := n.Args, integerFunctions[n.Name]
		if apply == nil || n.ExpandFinal || len(args) == 0 {
			return nil
		}
		if rounds := n.Name == "floor" || n.Name == "ceil"; rounds && len(args) == 1 {
			if div, ok := args[0].(*hclsyntax.BinaryOpExpr); ok && div.Op == hclsyntax.OpDivide {
				args = []hclsyntax.Expression{div.LHS, div.RHS}
			}
		}
		if nodes := sp.fastAll(args...); nodes != nil {
			return fastFold(nodes, apply)
		}
	}
	return nil
}

// fastAll compiles several nodes. It returns nil if one of them has no fast form.
func (sp *space) fastAll(exprs ...hclsyntax.Expression) []fastNode {
	out := make([]fastNode, len(exprs))
	for i, e := range exprs {
		if out[i] = sp.fast(e); out[i] == nil {
			return nil
		}
	}
	return out
}

func fastVariable(v *variable) fastNode {
	primitive := v.info.typ.IsPrimitiveType()
	return func() fastVal {
		switch {
		case v.cur >= 0:
			return v.fast[v.cur]
		case v.cur == idUnbound && primitive:
			return unknown
		}
		return unsure
	}
}

// integerOps are the binary operators on integers.
var integerOps = map[*hclsyntax.Operation]func(x, y int64) fastVal{
	hclsyntax.OpAdd: func(x, y int64) fastVal { return intVal(addExact(x, y)) },
	hclsyntax.OpSubtract: func(x, y int64) fastVal {
		if y == math.MinInt64 {
			return unsure
		}
		return intVal(addExact(x, -y))
	},
	hclsyntax.OpMultiply:           func(x, y int64) fastVal { return intVal(mulExact(x, y)) },
	hclsyntax.OpDivide:             quotient(func(q, r int64) fastVal { return intVal(q, r == 0) }),
	hclsyntax.OpModulo:             quotient(func(q, r int64) fastVal { return intVal(r, true) }),
	hclsyntax.OpLessThan:           func(x, y int64) fastVal { return boolVal(x < y) },
	hclsyntax.OpLessThanOrEqual:    func(x, y int64) fastVal { return boolVal(x <= y) },
	hclsyntax.OpGreaterThan:        func(x, y int64) fastVal { return boolVal(x > y) },
	hclsyntax.OpGreaterThanOrEqual: func(x, y int64) fastVal { return boolVal(x >= y) },
}

// integerFunctions are the functions that grids use most. floor and ceil get the operands of a division.
var integerFunctions = map[string]func(x, y int64) fastVal{
	"floor":    quotient(func(q, r int64) fastVal { return intVal(q, true) }),
	"ceil":     quotient(roundUp),
	"ceil_div": quotient(roundUp),
	"min":      func(x, y int64) fastVal { return intVal(min(x, y), true) },
	"max":      func(x, y int64) fastVal { return intVal(max(x, y), true) },
}

func roundUp(q, r int64) fastVal { return intVal(q+min(r, 1), true) }

// quotient returns the division of a non-negative by a positive integer. apply gets the quotient and the
// remainder.
func quotient(apply func(q, r int64) fastVal) func(x, y int64) fastVal {
	return func(x, y int64) fastVal {
		if x < 0 || y <= 0 {
			return unsure
		}
		return apply(x/y, x%y)
	}
}

func fastBinary(op *hclsyntax.Operation, a, b fastNode) fastNode {
	switch op {
	case hclsyntax.OpLogicalAnd:
		return fastLogical(a, b, 0)
	case hclsyntax.OpLogicalOr:
		return fastLogical(a, b, 1)
	case hclsyntax.OpEqual, hclsyntax.OpNotEqual:
		return fastEqual(a, b, op == hclsyntax.OpEqual)
	}

	apply := integerOps[op]
	if apply == nil {
		return nil
	}

	return func() fastVal {
		x, y := a(), b()
		if x.kind == fastInt && y.kind == fastInt {
			return apply(x.i, y.i)
		}
		return integers(x, y, apply)
	}
}

// integers applies an operator to two integers. The result is unknown if an operand is.
func integers(x, y fastVal, apply func(x, y int64) fastVal) fastVal {
	switch {
	case x.kind == fastInt && y.kind == fastInt:
		return apply(x.i, y.i)
	case (x.kind == fastInt || x.kind == fastUnknown) && (y.kind == fastInt || y.kind == fastUnknown):
		return unknown
	}
	return unsure
}

// fastFold applies a function of two integers to one integer after another.
func fastFold(args []fastNode, apply func(x, y int64) fastVal) fastNode {
	return func() fastVal {
		v := args[0]()
		for _, a := range args[1:] {
			v = integers(v, a(), apply)
		}

		if v.kind != fastInt && v.kind != fastUnknown {
			return unsure
		}

		return v
	}
}

// fastLogical implements && (deciding 0) and || (deciding 1).
func fastLogical(a, b fastNode, deciding int64) fastNode {
	return func() fastVal {
		x := a()
		if x.kind != fastBool && x.kind != fastUnknown {
			return unsure
		}
		if x.kind == fastBool && x.i == deciding {
			return x
		}

		y := b()
		switch {
		case y.kind != fastBool && y.kind != fastUnknown:
			return unsure
		case y.kind == fastBool && y.i == deciding, x.kind == fastBool:
			return y
		}

		return x // unknown
	}
}

// fastEqual implements == and, if equal is false, !=.
func fastEqual(a, b fastNode, equal bool) fastNode {
	return func() fastVal {
		x, y := a(), b()
		switch {
		case x.kind == fastUnsure || y.kind == fastUnsure:
			return unsure
		case x.kind == fastUnknown || y.kind == fastUnknown:
			if x.kind == fastNull || y.kind == fastNull || x.kind == y.kind {
				return unsure
			}
			return unknown
		case x.kind == fastNull || y.kind == fastNull:
			return boolVal((x.kind == y.kind) == equal)
		case x.kind != y.kind:
			return unsure
		}

		return boolVal((x.i == y.i) == equal)
	}
}

// fastChoice implements ?: for results of one kind. HCL would convert results of different kinds.
func fastChoice(condition, yes, no fastNode) fastNode {
	return func() fastVal {
		cond, x, y := condition(), yes(), no()
		if cond.kind != fastBool || x.kind < fastNull || y.kind < fastNull {
			return unsure
		}
		if x.kind != y.kind && x.kind != fastNull && y.kind != fastNull {
			return unsure
		}

		if cond.i == 1 {
			return x
		}

		return y
	}
}

// cty converts an integer or bool result to a cty value.
func (v fastVal) cty() cty.Value {
	if v.kind == fastInt {
		return cty.NumberIntVal(v.i)
	}
	return cty.BoolVal(v.i == 1)
}

// quick returns the result of the fast path, or unsure if HCL must evaluate p.
func (p *prog) quick() fastVal {
	if p.fast == nil {
		return unsure
	}
	return p.fast()
}

func addExact(x, y int64) (int64, bool) {
	s := x + y
	return s, (s > x) == (y > 0)
}

func mulExact(x, y int64) (int64, bool) {
	p := x * y
	return p, x == 0 || y == 0 || p/y == x && p/x == y
}
