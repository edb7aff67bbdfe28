package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// TypeText returns a type as written in plans, including optional attributes.
func TypeText(t cty.Type) string {
	switch {
	case t == cty.DynamicPseudoType:
		return "any"

	case t.IsPrimitiveType():
		return t.FriendlyName()

	case t.IsListType():
		return "list(" + TypeText(t.ElementType()) + ")"

	case t.IsSetType():
		return "set(" + TypeText(t.ElementType()) + ")"

	case t.IsMapType():
		return "map(" + TypeText(t.ElementType()) + ")"

	case t.IsTupleType():
		var parts []string
		for _, e := range t.TupleElementTypes() {
			parts = append(parts, TypeText(e))
		}
		return "tuple([" + strings.Join(parts, ", ") + "])"

	case t.IsObjectType():
		var parts []string
		for _, name := range sortedKeys(t.AttributeTypes()) {
			text := TypeText(t.AttributeType(name))
			if t.AttributeOptional(name) {
				text = "optional(" + text + ")"
			}
			parts = append(parts, name+" = "+text)
		}

		return "object({ " + strings.Join(parts, ", ") + " })"
	}
	return t.FriendlyName()
}

// misfit returns the text of a conversion error, with the path inside the value.
func misfit(err error) string {
	var p cty.PathError
	if !errors.As(err, &p) || len(p.Path) == 0 {
		return err.Error()
	}

	var at strings.Builder
	for _, step := range p.Path {
		switch s := step.(type) {
		case cty.GetAttrStep:
			at.WriteString("." + s.Name)

		case cty.IndexStep:
			switch k := s.Key; {
			case !k.IsKnown() || k.IsNull():
				at.WriteString("[...]")
			case k.Type() == cty.String:
				fmt.Fprintf(&at, "[%q]", k.AsString())
			case k.Type() == cty.Number:
				at.WriteString("[" + k.AsBigFloat().Text('f', -1) + "]")
			default: // elements of a set have no keys
				at.WriteString("[...]")
			}
		}
	}

	return at.String() + ": " + err.Error()
}
