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
	_, within := look(v)
	return within
}

// whollyKnown is cty's IsWhollyKnown.
func whollyKnown(v cty.Value) bool {
	known, _ := look(v)
	return known
}

// look says whether all of a value is known, and all of its numbers are within the
// bounds. It does not sort the names of objects as cty's iterators do, which took
// most of the time that remembering values did.
func look(v cty.Value) (known, within bool) {
	v, _ = v.Unmark()
	t := v.Type()
	switch {
	case !v.IsKnown():
		return false, true
	case v.IsNull():
		return true, true
	case t == cty.Number:
		return true, !outOfBounds(v.AsBigFloat())
	case !v.CanIterateElements():
		return true, true
	}
	known, within = true, true
	both := func(e cty.Value) bool {
		k, w := look(e)
		known, within = known && k, within && w
		return known || within // else there is nothing more to find out
	}
	if t.IsObjectType() {
		for name := range t.AttributeTypes() {
			if !both(v.GetAttr(name)) {
				break
			}
		}
		return known, within
	}
	for it := v.ElementIterator(); it.Next(); {
		if _, e := it.Element(); !both(e) {
			break
		}
	}
	return known, within
}
