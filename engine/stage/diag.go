package stage

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// ErrorAt returns an error about a place in a plan. Its detail is formatted as by fmt.Sprintf.
func ErrorAt(at hcl.Range, summary, format string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &at}}
}

// WarningAt is ErrorAt for warnings.
func WarningAt(at hcl.Range, summary, format string, args ...any) hcl.Diagnostics {
	diags := ErrorAt(at, summary, format, args...)
	diags[0].Severity = hcl.DiagWarning
	return diags
}

// AddError appends an ErrorAt to diags.
func AddError(diags *hcl.Diagnostics, at hcl.Range, summary, format string, args ...any) {
	*diags = append(*diags, ErrorAt(at, summary, format, args...)...)
}

// Errors returns a function that appends errors at a place to diags.
func Errors(diags *hcl.Diagnostics, at hcl.Range) func(summary, format string, args ...any) {
	return func(summary, format string, args ...any) { AddError(diags, at, summary, format, args...) }
}

// TraversalText returns a reference as it is written in a plan.
func TraversalText(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			fmt.Fprintf(&b, "[%v]", Plain(s.Key))
		}
	}
	return b.String()
}

// NeverEqual returns the first operation of expr that tests whether values of different types are equal, and these
// types, or nil if there is none. HCL evaluates such a test to false, without an error. The variables of ctx may be
// unknown.
func NeverEqual(expr hcl.Expression, ctx *hcl.EvalContext) (at *hclsyntax.BinaryOpExpr, left, right cty.Type) {
	_ = hclsyntax.VisitAll(expr.(hclsyntax.Node), func(n hclsyntax.Node) hcl.Diagnostics {
		op, ok := n.(*hclsyntax.BinaryOpExpr)
		if !ok || at != nil || op.Op != hclsyntax.OpEqual && op.Op != hclsyntax.OpNotEqual {
			return nil
		}

		l, more := op.LHS.Value(ctx)
		r, others := op.RHS.Value(ctx)
		if more.HasErrors() || others.HasErrors() { // evaluating the expression reports them
			return nil
		}

		if l.Type().IsPrimitiveType() && r.Type().IsPrimitiveType() && l.Type() != r.Type() {
			at, left, right = op, l.Type(), r.Type()
		}
		return nil
	})
	return at, left, right
}

// Unequal returns the error of NeverEqual as a diagnostic, or nil.
func Unequal(expr hcl.Expression, ctx *hcl.EvalContext) hcl.Diagnostics {
	at, left, right := NeverEqual(expr, ctx)
	if at == nil {
		return nil
	}
	return ErrorAt(at.Range(), "Comparison across types",
		"A %s never equals a %s, so this is always %v. Write both sides in the same type, for example 90 without quotes.",
		left.FriendlyName(), right.FriendlyName(), at.Op == hclsyntax.OpNotEqual)
}
