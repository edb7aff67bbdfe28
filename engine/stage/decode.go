package stage

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Decode fills target, a pointer to a struct with gohcl tags, from body: what
// the engine does for stages without a BodyDecoder. Names in bound are left to
// the caller's lazy expressions.
func Decode(body hcl.Body, eval Evaluator, target any, bound map[string]bool) hcl.Diagnostics {
	ctx, diags := eval.Context(Expressions(body), bound)
	if diags.HasErrors() {
		return diags
	}
	return append(diags, gohcl.DecodeBody(body, ctx, target)...)
}

// Expressions returns every attribute's expression in body and its nested
// blocks. It works on native syntax only, the one that plans are written in.
func Expressions(body hcl.Body) []hcl.Expression {
	b, ok := body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	var out []hcl.Expression
	for _, a := range b.Attributes {
		out = append(out, a.Expr)
	}
	for _, nested := range b.Blocks {
		out = append(out, Expressions(nested.Body)...)
	}
	return out
}
