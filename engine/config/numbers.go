package config

import (
	"math/big"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// mostExponent bounds numbers to 2 to that power, and to its inverse: about
// 1e1233. What is measured is float64, which ends at 1e308. Larger ones have no
// use, and to write out their digits may take all of the time and memory.
const mostExponent = 4096

func outOfBounds(f *big.Float) bool {
	e := f.MantExp(nil)
	return f.IsInf() || e > mostExponent || e < -mostExponent
}

// boundedLiterals looks at the numbers that an expression spells.
func boundedLiterals(node hclsyntax.Node) (diags hcl.Diagnostics) {
	hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		if lit, ok := n.(*hclsyntax.LiteralValueExpr); ok && !bounded(lit.Val) {
			diags = append(diags, unbounded(lit.SrcRange))
		}
		return nil
	})
	return diags
}

func unbounded(rng hcl.Range) *hcl.Diagnostic {
	return errorAt(rng, "Number out of bounds", "A number is larger than 1e1233, or smaller than 1e-1233 without being 0: write one that a float64 can hold.")
}

// bounded says whether all numbers of a value are within the bounds.
func bounded(v cty.Value) bool {
	v, _ = v.Unmark()
	t := v.Type()
	switch {
	case !v.IsKnown() || v.IsNull():
		return true
	case t == cty.Number:
		return !outOfBounds(v.AsBigFloat())
	case t.IsPrimitiveType() || t.IsCapsuleType():
		return true
	case t.IsCollectionType() && t.ElementType().IsPrimitiveType() && t.ElementType() != cty.Number:
		return true
	case t.IsObjectType(): // an iterator would sort the names
		for name := range t.AttributeTypes() {
			if !bounded(v.GetAttr(name)) {
				return false
			}
		}
		return true
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !bounded(e) {
			return false
		}
	}
	return true
}

// whollyKnown is cty's IsWhollyKnown without sorting the names of objects, which
// took most of the time that remembering values did.
func whollyKnown(v cty.Value) bool {
	v, _ = v.Unmark()
	t := v.Type()
	switch {
	case !v.IsKnown():
		return false
	case v.IsNull() || !v.CanIterateElements():
		return true
	case t.IsObjectType():
		for name := range t.AttributeTypes() {
			if !whollyKnown(v.GetAttr(name)) {
				return false
			}
		}
		return true
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !whollyKnown(e) {
			return false
		}
	}
	return true
}
