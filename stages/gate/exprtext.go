package gate

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

var operators = map[*hclsyntax.Operation]string{
	hclsyntax.OpLogicalOr: "||", hclsyntax.OpLogicalAnd: "&&", hclsyntax.OpLogicalNot: "!",
	hclsyntax.OpEqual: "==", hclsyntax.OpNotEqual: "!=",
	hclsyntax.OpGreaterThan: ">", hclsyntax.OpGreaterThanOrEqual: ">=", hclsyntax.OpLessThan: "<",
	hclsyntax.OpLessThanOrEqual: "<=",
	hclsyntax.OpAdd:             "+", hclsyntax.OpSubtract: "-", hclsyntax.OpMultiply: "*", hclsyntax.OpDivide: "/",
	hclsyntax.OpModulo: "%", hclsyntax.OpNegate: "-",
}

func nodeText(e hclsyntax.Expression) string {
	switch x := e.(type) {
	case *hclsyntax.BinaryOpExpr:
		return nodeText(x.LHS) + " " + operators[x.Op] + " " + nodeText(x.RHS)
	case *hclsyntax.UnaryOpExpr:
		return operators[x.Op] + nodeText(x.Val)
	case *hclsyntax.ParenthesesExpr:
		return "(" + nodeText(x.Expression) + ")"
	case *hclsyntax.LiteralValueExpr:
		return literalText(x.Val)
	case *hclsyntax.ScopeTraversalExpr:
		return traversalText(x.Traversal)
	case *hclsyntax.RelativeTraversalExpr:
		return nodeText(x.Source) + traversalText(x.Traversal)
	case *hclsyntax.FunctionCallExpr:
		return x.Name + "(" + listText(x.Args) + ")"
	case *hclsyntax.ConditionalExpr:
		return nodeText(x.Condition) + " ? " + nodeText(x.TrueResult) + " : " + nodeText(x.FalseResult)
	case *hclsyntax.TupleConsExpr:
		return "[" + listText(x.Exprs) + "]"
	case *hclsyntax.IndexExpr:
		return nodeText(x.Collection) + "[" + nodeText(x.Key) + "]"
	case *hclsyntax.TemplateExpr:
		return "template(" + listText(x.Parts) + ")"
	case *hclsyntax.TemplateWrapExpr:
		return nodeText(x.Wrapped)
	case *hclsyntax.ObjectConsExpr:
		var parts []string
		for _, it := range x.Items {
			parts = append(parts, nodeText(it.KeyExpr)+" = "+nodeText(it.ValueExpr))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *hclsyntax.ObjectConsKeyExpr:
		return nodeText(x.Wrapped)
	case *hclsyntax.ForExpr:
		parts := []string{x.KeyVar, x.ValVar, nodeText(x.CollExpr)}
		for _, sub := range []hclsyntax.Expression{x.KeyExpr, x.ValExpr, x.CondExpr} {
			if sub != nil {
				parts = append(parts, nodeText(sub))
			} else {
				parts = append(parts, "-")
			}
		}

		return "for(" + strings.Join(parts, ", ") + ")"
	case *hclsyntax.SplatExpr:
		return nodeText(x.Source) + "[*]" + nodeText(x.Each)
	case *hclsyntax.AnonSymbolExpr:
		return ""
	case interface{ Unwrap() hclsyntax.Expression }:
		return nodeText(x.Unwrap())
	}

	// Node types that are not listed are identified by their source range.
	return fmt.Sprintf("%T@%s", e, e.Range())
}

func listText(list []hclsyntax.Expression) string {
	parts := make([]string, 0, len(list))
	for _, e := range list {
		parts = append(parts, nodeText(e))
	}
	return strings.Join(parts, ", ")
}

func literalText(v cty.Value) string {
	switch {
	case v.IsNull():
		return "null"
	case v.Type() == cty.String:
		return strconv.Quote(v.AsString())
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('g', -1)
	case v.Type() == cty.Bool:
		return strconv.FormatBool(v.True())
	}

	return v.GoString()
}
