package config

import (
	"maps"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// functionsHere are the functions with those that look at the module's own text.
func (s *scope) functionsHere() map[string]function.Function {
	if s.functions == nil {
		s.functions = maps.Clone(s.l.functions)
		s.functions["line_of"] = lineOfFunc(s.decl)
	}
	return s.functions
}

// lineOfFunc finds where the locals of a module hold a row, so that a message about
// a mistake in it can say where that is. m is nil where there is no module.
func lineOfFunc(m *moduleDecl) function.Function {
	return function.New(&function.Spec{
		Description: "FILE:LINE of the first object in the module's locals that holds the text, or of its attribute; \"\" where there is none",
		Params:      []function.Parameter{{Name: "text", Type: cty.String}, {Name: "attribute", Type: cty.String}},
		Type:        function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if m == nil {
				return cty.StringVal(""), nil
			}
			rng, found := m.lineOf(args[0].AsString(), args[1].AsString())
			if !found {
				return cty.StringVal(""), nil
			}
			return cty.StringVal(shortRange(rng)), nil
		},
	})
}

// lineOf is the place of an attribute in an object of the locals that holds a
// text, else that of the text.
func (m *moduleDecl) lineOf(text, attribute string) (rng hcl.Range, found bool) {
	exact := false
	for _, name := range sortedKeys(m.locals) {
		_ = hclsyntax.VisitAll(m.locals[name].Expr, func(n hclsyntax.Node) hcl.Diagnostics {
			obj, ok := n.(*hclsyntax.ObjectConsExpr)
			if !ok || exact {
				return nil
			}
			var holds, has *hcl.Range
			for _, item := range obj.Items {
				if literalText(item.ValueExpr) == text && holds == nil {
					r := item.ValueExpr.Range()
					holds = &r
				}
				if hcl.ExprAsKeyword(item.KeyExpr) == attribute || literalText(item.KeyExpr) == attribute {
					r := item.KeyExpr.Range()
					has = &r
				}
			}
			switch {
			case holds == nil:
			case has != nil && attribute != "":
				rng, found, exact = *has, true, true
			case !found:
				rng, found = *holds, true
			}
			return nil
		})
	}
	return rng, found
}

// literalText is the text of a quoted literal, else "".
func literalText(e hcl.Expression) string {
	if key, ok := e.(*hclsyntax.ObjectConsKeyExpr); ok {
		e = key.Wrapped
	}
	t, ok := e.(*hclsyntax.TemplateExpr)
	if !ok || !t.IsStringLiteral() {
		return ""
	}
	v, diags := t.Value(nil)
	if diags.HasErrors() {
		return ""
	}
	return v.AsString()
}
