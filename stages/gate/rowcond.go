package gate

import (
	"math"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// native evaluates conditions of comparisons and arithmetic over numeric and boolean columns in float64.
// HCL computes with 512 bits, which takes a hundred times as long for each row. The rows must have a value
// in all columns except the first of coalesce.
type native struct {
	ctx     *hcl.EvalContext
	numbers map[string][]float64
	flags   map[string][]bool
	valid   map[string][]bool // of columns with nulls; empty if the column does not exist
	needed  []string          // columns that have a value in all rows that are evaluated
}

// compile compiles an expression, so that conditions are 0 or 1, or NaN if an operand has no value, such as 1 / 0. flag
// is true for conditions. It returns nil if HCL must evaluate the expression.
func (n native) compile(expr hclsyntax.Expression) (at func(row int) float64, flag bool) {
	if len(columnNamesOf(expr)) == 0 {
		v, diags := expr.Value(n.ctx)
		if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.Type() != cty.Number {
			return nil, false
		}
		f, _ := v.AsBigFloat().Float64()
		return func(int) float64 { return f }, false
	}

	switch x := expr.(type) {
	case *hclsyntax.ParenthesesExpr:
		return n.compile(x.Expression)

	case *hclsyntax.ScopeTraversalExpr:
		name := x.Traversal.RootName()
		if n.valid[name] == nil || slices.Contains(n.needed, name) {
			return n.column(name)
		}

	case *hclsyntax.UnaryOpExpr:
		if of, flag := n.compile(x.Val); flag && x.Op == hclsyntax.OpLogicalNot {
			return func(row int) float64 { return 1 - of(row) }, true
		}

	case *hclsyntax.FunctionCallExpr:
		if x.Name == "coalesce" && len(x.Args) == 2 {
			return n.coalesce(x.Args[0], x.Args[1])
		}
		if x.Name != "abs" || len(x.Args) != 1 {
			return nil, false
		}
		if of, flag := n.compile(x.Args[0]); of != nil && !flag {
			return func(row int) float64 { return math.Abs(of(row)) }, false
		}

	case *hclsyntax.BinaryOpExpr:
		a, flagA := n.compile(x.LHS)
		b, flagB := n.compile(x.RHS)
		apply, logical := operations[x.Op], x.Op == hclsyntax.OpLogicalAnd || x.Op == hclsyntax.OpLogicalOr
		if a == nil || b == nil || apply == nil || flagA != logical || flagB != logical {
			return nil, false
		}
		return func(row int) float64 { return apply(a(row), b(row)) }, x.Op.Type == cty.Bool
	}

	return nil, false
}

// column returns the values of a column, which are of no use where it is null. It returns nil if the column is neither
// of numbers nor of flags.
func (n native) column(name string) (at func(row int) float64, flag bool) {
	if values := n.numbers[name]; values != nil {
		return func(row int) float64 { return values[row] }, false
	}
	if flags := n.flags[name]; flags != nil {
		return func(row int) float64 { return bit(flags[row], 0, 0) }, true
	}
	return nil, false
}

// coalesce compiles the value of a column, or of other where the column is null.
func (n native) coalesce(column, other hclsyntax.Expression) (at func(row int) float64, flag bool) {
	named, ok := column.(*hclsyntax.ScopeTraversalExpr)
	b, flag := n.compile(other)
	if !ok || b == nil {
		return nil, false
	}

	name := named.Traversal.RootName()
	valid := n.valid[name]
	a, flagA := n.column(name)
	switch {
	case valid != nil && len(valid) == 0:
		return b, flag
	case a == nil || flagA != flag:
		return nil, false
	case valid == nil:
		return a, flag
	}
	return func(row int) float64 {
		if valid[row] {
			return a(row)
		}
		return b(row)
	}, flag
}

// operations are the operators of native evaluation.
var operations = map[*hclsyntax.Operation]func(a, b float64) float64{
	hclsyntax.OpLogicalAnd:         func(a, b float64) float64 { return a * b },
	hclsyntax.OpLogicalOr:          func(a, b float64) float64 { return max(a, b) },
	hclsyntax.OpLessThan:           func(a, b float64) float64 { return bit(a < b, a, b) },
	hclsyntax.OpLessThanOrEqual:    func(a, b float64) float64 { return bit(a <= b, a, b) },
	hclsyntax.OpGreaterThan:        func(a, b float64) float64 { return bit(a > b, a, b) },
	hclsyntax.OpGreaterThanOrEqual: func(a, b float64) float64 { return bit(a >= b, a, b) },
	hclsyntax.OpEqual:              func(a, b float64) float64 { return bit(a == b, a, b) },
	hclsyntax.OpNotEqual:           func(a, b float64) float64 { return bit(a != b, a, b) },
	hclsyntax.OpAdd:                func(a, b float64) float64 { return a + b },
	hclsyntax.OpSubtract:           func(a, b float64) float64 { return a - b },
	hclsyntax.OpMultiply:           func(a, b float64) float64 { return a * b },
	hclsyntax.OpDivide:             quotient,
}

// quotient returns NaN if b is zero.
func quotient(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// bit returns a condition over a and b as a number.
func bit(is bool, a, b float64) float64 {
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return math.NaN()
	case is:
		return 1
	}
	return 0
}
