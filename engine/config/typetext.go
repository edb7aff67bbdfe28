package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
)

// TypeText returns a type as written in plans, including optional attributes.
func TypeText(t cty.Type) string { return typeText(t, nil) }

// typeText returns a type with the defaults of its optional attributes.
func typeText(t cty.Type, defaults *typeexpr.Defaults) string {
	in := func(name string) *typeexpr.Defaults {
		if defaults == nil {
			return nil
		}
		return defaults.Children[name]
	}

	switch {
	case t.IsCollectionType():
		kind, _, _ := strings.Cut(t.FriendlyName(), " ")
		return kind + "(" + typeText(t.ElementType(), in("")) + ")"

	case t.IsTupleType():
		var parts []string
		for i, e := range t.TupleElementTypes() {
			parts = append(parts, typeText(e, in(strconv.Itoa(i))))
		}
		return "tuple([" + strings.Join(parts, ", ") + "])"

	case t.IsObjectType():
		var parts []string
		for _, name := range sortedKeys(t.AttributeTypes()) {
			text := typeText(t.AttributeType(name), in(name))
			if t.AttributeOptional(name) {
				if defaults != nil && defaults.DefaultValues[name] != cty.NilVal {
					text += ", " + string(hclwrite.TokensForValue(defaults.DefaultValues[name]).Bytes())
				}
				text = "optional(" + text + ")"
			}
			parts = append(parts, name+" = "+text)
		}

		return "object({ " + strings.Join(parts, ", ") + " })"
	}
	return typeexpr.TypeString(t)
}

// unsuitable describes why a value does not have the declared type of a variable. what names the value.
func (d *variableDecl) unsuitable(what string, err error) string {
	path, why := pathText(err), err.Error()
	if path == "" {
		what += " is " + TypeText(d.typ)
	}
	if !strings.HasSuffix(why, ".") && !strings.HasSuffix(why, "?") {
		why += "."
	}
	return what + path + ": " + why
}

// pathText returns the path of a conversion error as it is written in expressions, or "".
func pathText(err error) string {
	var at strings.Builder
	in, _ := errors.AsType[cty.PathError](err)
	for _, step := range in.Path {
		switch s := step.(type) {
		case cty.GetAttrStep:
			at.WriteString("." + s.Name)

		case cty.IndexStep:
			switch k := s.Key; {
			case stage.IsText(k):
				fmt.Fprintf(&at, "[%q]", k.AsString())
			case k.Type() == cty.Number && k.IsKnown():
				at.WriteString("[" + k.AsBigFloat().Text('f', -1) + "]")
			default: // elements of a set have no keys
				at.WriteString("[...]")
			}
		}
	}

	return at.String()
}

// checkAttributes returns an error if an object in v has an attribute that t does not declare.
// Conversion would drop it.
func checkAttributes(v cty.Value, t cty.Type, path cty.Path) error {
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return nil
	}

	for key, e := range v.Elements() {
		of := cty.DynamicPseudoType
		step := path.Index(key)

		switch {
		case t.IsObjectType() && key.Type() == cty.String:
			name := key.AsString()
			if !t.HasAttribute(name) {
				return path.GetAttr(name).NewErrorf("there is no such attribute.%s", didYouMean(name, namesOf(t.AttributeTypes())))
			}
			of, step = t.AttributeType(name), path.GetAttr(name)

		case t.IsCollectionType():
			of = t.ElementType()

		case t.IsTupleType() && v.Type().IsTupleType() && v.LengthInt() == t.Length():
			n, _ := key.AsBigFloat().Int64()
			of = t.TupleElementType(int(n))
		}

		if err := checkAttributes(e, of, step); err != nil {
			return err
		}
	}

	return nil
}

// elementRange returns the range of the element of expr to which a conversion error belongs, or of expr if
// the element is not written in it.
func elementRange(expr hcl.Expression, err error) hcl.Range {
	in, _ := errors.AsType[cty.PathError](err)
	for _, step := range in.Path {
		var next hcl.Expression
		switch s := step.(type) {
		case cty.IndexStep:
			next = element(expr, s.Key)
		case cty.GetAttrStep:
			next = element(expr, cty.StringVal(s.Name))
		}

		if next == nil {
			return expr.Range()
		}
		expr = next
	}

	return expr.Range()
}

// element returns the element of a list or object expression that is written in it, or nil.
func element(expr hcl.Expression, key cty.Value) hcl.Expression {
	if key.Type() == cty.Number {
		list, _ := hcl.ExprList(expr) // expr is another kind of expression if it returns diagnostics
		if n, _ := key.AsBigFloat().Int64(); int(n) < len(list) {
			return list[n]
		}
	}

	pairs, _ := hcl.ExprMap(expr)
	for _, p := range pairs {
		if v, diags := p.Key.Value(nil); !diags.HasErrors() && stage.IsText(v) && v.RawEquals(key) {
			return p.Value
		}
	}

	return nil
}
