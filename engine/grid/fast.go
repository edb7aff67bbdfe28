package grid

import (
	"math"
	"math/bits"

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
	fastList
)

// fastVal is a value of the fast path.
type fastVal struct {
	kind fastKind
	i    int64
	list []fastVal
}

var unsure = fastVal{}

// fastNode computes a value from the current ids of the variables.
type fastNode func() fastVal

func boolVal(b bool) fastVal {
	if b {
		return fastVal{kind: fastBool, i: 1}
	}
	return fastVal{kind: fastBool}
}

// fastOf converts a cty value, or returns unsure if the fast path does not support it.
func (sp *space) fastOf(v cty.Value) fastVal {
	switch {
	case v.IsMarked() || !v.IsKnown():
		return unsure

	case v.IsNull():
		return fastVal{kind: fastNull}

	case v.Type() == cty.Number:
		if i, acc := v.AsBigFloat().Int64(); acc == 0 {
			return fastVal{kind: fastInt, i: i}
		}

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

	case v.Type().IsListType() || v.Type().IsTupleType():
		out := fastVal{kind: fastList, list: []fastVal{}}
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			out.list = append(out.list, sp.fastOf(e))
		}
		return out
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

	case *hclsyntax.UnaryOpExpr:
		if x := sp.fast(n.Val); x != nil {
			return fastUnary(n.Op, x)
		}

	case *divNode:
		if a, b := sp.fast(n.LHS), sp.fast(n.RHS); a != nil && b != nil {
			return fastQuotient(n.Op == hclsyntax.OpModulo, a, b)
		}

	case *hclsyntax.BinaryOpExpr:
		if a, b := sp.fast(n.LHS), sp.fast(n.RHS); a != nil && b != nil {
			return fastBinary(n.Op, a, b)
		}

	case *hclsyntax.ConditionalExpr:
		c, t, f := sp.fast(n.Condition), sp.fast(n.TrueResult), sp.fast(n.FalseResult)
		if c != nil && t != nil && f != nil {
			return fastChoice(c, t, f)
		}

	case *hclsyntax.FunctionCallExpr:
		if !n.ExpandFinal {
			return sp.fastCall(n)
		}
	}
	return nil
}

func fastVariable(v *variable) fastNode {
	primitive := v.info.typ.IsPrimitiveType()
	return func() fastVal {
		switch {
		case v.cur >= 0:
			return v.fast[v.cur]
		case v.cur == idUnbound && primitive:
			return fastVal{kind: fastUnknown}
		}
		return unsure
	}
}

func fastUnary(op *hclsyntax.Operation, x fastNode) fastNode {
	if op == hclsyntax.OpLogicalNot {
		return func() fastVal {
			switch v := x(); v.kind {
			case fastBool:
				return fastVal{kind: fastBool, i: 1 - v.i}
			case fastUnknown:
				return v
			}
			return unsure
		}
	}
	return func() fastVal {
		switch v := x(); {
		case v.kind == fastInt && v.i != math.MinInt64:
			return fastVal{kind: fastInt, i: -v.i}
		case v.kind == fastUnknown:
			return v
		}
		return unsure
	}
}

func fastBinary(op *hclsyntax.Operation, a, b fastNode) fastNode {
	switch op {
	case hclsyntax.OpLogicalAnd:
		return fastLogical(a, b, 0)
	case hclsyntax.OpLogicalOr:
		return fastLogical(a, b, 1)
	case hclsyntax.OpEqual:
		return fastEqual(a, b, 1)
	case hclsyntax.OpNotEqual:
		return fastEqual(a, b, 0)
	case hclsyntax.OpAdd:
		return fastArithmetic(a, b, addExact)
	case hclsyntax.OpSubtract:
		return fastArithmetic(a, b, func(x, y int64) (int64, bool) {
			if y == math.MinInt64 {
				return 0, false
			}
			return addExact(x, -y)
		})

	case hclsyntax.OpMultiply:
		return fastArithmetic(a, b, mulExact)
	case hclsyntax.OpLessThan:
		return fastCompare(a, b, func(x, y int64) bool { return x < y })
	case hclsyntax.OpLessThanOrEqual:
		return fastCompare(a, b, func(x, y int64) bool { return x <= y })
	case hclsyntax.OpGreaterThan:
		return fastCompare(a, b, func(x, y int64) bool { return x > y })
	case hclsyntax.OpGreaterThanOrEqual:
		return fastCompare(a, b, func(x, y int64) bool { return x >= y })
	}
	return nil
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

// fastEqual implements == (equal 1) and != (equal 0).
func fastEqual(a, b fastNode, equal int64) fastNode {
	return func() fastVal {
		x, y := a(), b()
		switch {
		case x.kind == fastNull && y.kind == fastNull:
			return fastVal{kind: fastBool, i: equal}
		case x.kind == fastNull && y.kind > fastNull, y.kind == fastNull && x.kind > fastNull:
			return fastVal{kind: fastBool, i: 1 - equal}
		case x.kind == y.kind && (x.kind == fastInt || x.kind == fastBool || x.kind == fastString):
			if x.i == y.i {
				return fastVal{kind: fastBool, i: equal}
			}
			return fastVal{kind: fastBool, i: 1 - equal}

		case x.kind == fastUnknown && y.kind > fastNull && y.kind < fastList,
			y.kind == fastUnknown && x.kind > fastNull && x.kind < fastList:
			return fastVal{kind: fastUnknown}
		}

		return unsure
	}
}

func fastArithmetic(a, b fastNode, op func(x, y int64) (int64, bool)) fastNode {
	return func() fastVal {
		x, y := a(), b()
		if x.kind == fastInt && y.kind == fastInt {
			if i, ok := op(x.i, y.i); ok {
				return fastVal{kind: fastInt, i: i}
			}
			return unsure
		}

		return bothUnknown(x, y)
	}
}

func fastCompare(a, b fastNode, op func(x, y int64) bool) fastNode {
	return func() fastVal {
		x, y := a(), b()
		if x.kind == fastInt && y.kind == fastInt {
			return boolVal(op(x.i, y.i))
		}
		return bothUnknown(x, y)
	}
}

// bothUnknown returns the result of a numeric operator whose operands are not both integers:
// unknown if each operand is an integer or unknown, otherwise unsure.
func bothUnknown(x, y fastVal) fastVal {
	if (x.kind == fastUnknown && (y.kind == fastUnknown || y.kind == fastInt)) ||
		(x.kind == fastInt && y.kind == fastUnknown) {
		return fastVal{kind: fastUnknown}
	}
	return unsure
}

// fastQuotient implements / for integers without a remainder, and % for a non-negative dividend and
// a positive divisor.
func fastQuotient(modulo bool, a, b fastNode) fastNode {
	return func() fastVal {
		x, y := a(), b()
		if x.kind != fastInt || y.kind != fastInt || x.i < 0 || y.i <= 0 {
			return unsure
		}

		switch {
		case modulo:
			return fastVal{kind: fastInt, i: x.i % y.i}
		case x.i%y.i == 0:
			return fastVal{kind: fastInt, i: x.i / y.i}
		}

		return unsure
	}
}

// fastChoice implements ?: for results of one kind. HCL would convert results of different kinds.
func fastChoice(c, t, f fastNode) fastNode {
	return func() fastVal {
		cond, x, y := c(), t(), f()
		if cond.kind != fastBool || x.kind < fastNull || y.kind < fastNull || x.kind == fastList || y.kind == fastList {
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

func addExact(x, y int64) (int64, bool) {
	s := x + y
	return s, (s > x) == (y > 0)
}

func mulExact(x, y int64) (int64, bool) {
	if x < 0 || y < 0 {
		if x == math.MinInt64 || y == math.MinInt64 {
			return 0, false
		}
		p, ok := mulExact(max(x, -x), max(y, -y))
		if (x < 0) != (y < 0) {
			p = -p
		}

		return p, ok
	}
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	return int64(lo), hi == 0 && lo <= math.MaxInt64
}
