package stage

import (
	"maps"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Decode decodes body into target, a pointer to a struct with gohcl tags. The engine uses it for stages without a
// BodyDecoder.
func Decode(body hcl.Body, eval Evaluator, target any) hcl.Diagnostics {
	ctx, diags := eval.Context(Expressions(body), nil)
	if diags.HasErrors() {
		return diags
	}
	return append(diags, DecodeBody(body, ctx, target)...)
}

// DecodeBody is like gohcl.DecodeBody, except that null means that an optional attribute is not set: attr = var.x
// ? value : null leaves the default.
func DecodeBody(body hcl.Body, ctx *hcl.EvalContext, target any) hcl.Diagnostics {
	if b, ok := body.(*hclsyntax.Body); ok {
		body = withoutNulls(b, ctx, reflect.TypeOf(target))
	}
	return gohcl.DecodeBody(body, ctx, target)
}

// Attributes of these types handle null themselves, or are evaluated later.
var seesNull = map[reflect.Type]bool{
	reflect.TypeFor[cty.Value]():      true,
	reflect.TypeFor[hcl.Expression](): true,
	reflect.TypeFor[*hcl.Attribute](): true,
}

// withoutNulls returns body without optional attributes that are null.
func withoutNulls(body *hclsyntax.Body, ctx *hcl.EvalContext, target reflect.Type) *hclsyntax.Body {
	for target.Kind() == reflect.Pointer || target.Kind() == reflect.Slice {
		target = target.Elem()
	}
	if target.Kind() != reflect.Struct {
		return body
	}
	copied := *body
	for i := range target.NumField() {
		field := target.Field(i)
		name, kind, _ := strings.Cut(field.Tag.Get("hcl"), ",")
		switch kind {
		case "optional":
			a, given := body.Attributes[name]
			if !given || seesNull[field.Type] {
				continue
			}
			if v, diags := a.Expr.Value(ctx); diags.HasErrors() || !v.IsKnown() || !v.IsNull() {
				continue
			}
			copied.Attributes = maps.Clone(copied.Attributes)
			delete(copied.Attributes, name)
		case "block":
			copied.Blocks = append(hclsyntax.Blocks{}, copied.Blocks...)
			for j, b := range copied.Blocks {
				if b.Type == name {
					nested := *b
					nested.Body = withoutNulls(b.Body, ctx, field.Type)
					copied.Blocks[j] = &nested
				}
			}
		}
	}

	return &copied
}

// Expressions returns the expressions of all attributes in body and its nested blocks. It supports only native
// syntax, in which plans are written.
func Expressions(body hcl.Body) []hcl.Expression {
	b := body.(*hclsyntax.Body)
	var out []hcl.Expression
	for _, a := range b.Attributes {
		out = append(out, a.Expr)
	}
	for _, nested := range b.Blocks {
		out = append(out, Expressions(nested.Body)...)
	}
	return out
}
