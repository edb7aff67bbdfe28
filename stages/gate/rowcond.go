package gate

import (
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// native evaluates conditions of comparisons and arithmetic over numeric and boolean columns in float64.
// HCL computes with 512 bits, which takes a hundred times as long for each row. The rows must have a value
// in all columns.
type native struct {
	ctx     *hcl.EvalContext
	numbers map[string][]float64
	flags   map[string][]bool
}

// condition compiles a condition. It returns nil if HCL must evaluate it.
func (n native) condition(expr hcl.Expression) func(row int) bool {
	switch x := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return n.condition(x.Expression)

	case *hclsyntax.ScopeTraversalExpr:
		if flags := n.flags[x.Traversal.RootName()]; flags != nil && len(x.Traversal) == 1 {
			return func(row int) bool { return flags[row] }
		}

	case *hclsyntax.UnaryOpExpr:
		if of := n.condition(x.Val); of != nil && x.Op == hclsyntax.OpLogicalNot {
			return func(row int) bool { return !of(row) }
		}

	case *hclsyntax.BinaryOpExpr:
		if x.Op == hclsyntax.OpLogicalAnd || x.Op == hclsyntax.OpLogicalOr {
			a, b := n.condition(x.LHS), n.condition(x.RHS)
			switch {
			case a == nil || b == nil:
				return nil
			case x.Op == hclsyntax.OpLogicalAnd:
				return func(row int) bool { return a(row) && b(row) }
			}
			return func(row int) bool { return a(row) || b(row) }
		}

		if a, b := n.number(x.LHS), n.number(x.RHS); a != nil && b != nil {
			return comparison(x.Op, a, b)
		}
	}

	return nil
}

func comparison(op *hclsyntax.Operation, a, b func(int) float64) func(int) bool {
	switch op {
	case hclsyntax.OpLessThan:
		return func(row int) bool { return a(row) < b(row) }
	case hclsyntax.OpLessThanOrEqual:
		return func(row int) bool { return a(row) <= b(row) }
	case hclsyntax.OpGreaterThan:
		return func(row int) bool { return a(row) > b(row) }
	case hclsyntax.OpGreaterThanOrEqual:
		return func(row int) bool { return a(row) >= b(row) }
	case hclsyntax.OpEqual:
		return func(row int) bool { return a(row) == b(row) }
	case hclsyntax.OpNotEqual:
		return func(row int) bool { return a(row) != b(row) }
	}
	return nil
}

// number compiles an expression of numbers. It returns nil if HCL must evaluate it.
func (n native) number(expr hclsyntax.Expression) func(row int) float64 {
	if len(columnNamesOf(expr)) == 0 {
		v, diags := expr.Value(n.ctx)
		if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.Number {
			return nil
		}
		f, _ := v.AsBigFloat().Float64()
		return func(int) float64 { return f }
	}

	switch x := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return n.number(x.Expression)

	case *hclsyntax.ScopeTraversalExpr:
		if values := n.numbers[x.Traversal.RootName()]; values != nil && len(x.Traversal) == 1 {
			return func(row int) float64 { return values[row] }
		}

	case *hclsyntax.FunctionCallExpr:
		if x.Name == "abs" && len(x.Args) == 1 {
			if of := n.number(x.Args[0]); of != nil {
				return func(row int) float64 { return math.Abs(of(row)) }
			}
		}

	case *hclsyntax.BinaryOpExpr:
		a, b := n.number(x.LHS), n.number(x.RHS)
		if a == nil || b == nil {
			return nil
		}

		switch x.Op {
		case hclsyntax.OpAdd:
			return func(row int) float64 { return a(row) + b(row) }
		case hclsyntax.OpSubtract:
			return func(row int) float64 { return a(row) - b(row) }
		case hclsyntax.OpMultiply:
			return func(row int) float64 { return a(row) * b(row) }
		case hclsyntax.OpDivide:
			return func(row int) float64 { return a(row) / b(row) }
		}
	}

	return nil
}
