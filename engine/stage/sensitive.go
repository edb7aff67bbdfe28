package stage

import (
	"math"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Sensitive marks values that are never shown or stored. Marks pass through
// expressions: what is made of a sensitive value is sensitive.
const Sensitive = sensitive("sensitive")

type sensitive string

// IsText reports whether a value is a known string.
func IsText(v cty.Value) bool { return v.Type() == cty.String && v.IsKnown() && !v.IsNull() }

// Number converts v by way of its shortest decimal text, so that a measured 0.1 equals the literal 0.1 of a plan. NaN
// becomes null.
func Number(v float64) cty.Value {
	if math.IsNaN(v) {
		return cty.NullVal(cty.Number)
	}

	n, err := cty.ParseNumberVal(strconv.FormatFloat(v, 'g', -1, 64))
	if err != nil {
		return cty.NumberFloatVal(v)
	}
	return n
}

// Cell converts a cell of a table, as table.Value returns it, for expressions.
func Cell(v any) cty.Value {
	switch v := v.(type) {
	case int64:
		return cty.NumberIntVal(v)
	case float64:
		return Number(v)
	case bool:
		return cty.BoolVal(v)
	case string:
		return cty.StringVal(v)
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

// SensitiveTexts returns the words and numbers in a value, as they may occur in text.
func SensitiveTexts(v cty.Value) []string {
	var out []string
	if v == cty.NilVal {
		return nil
	}
	v, _ = v.UnmarkDeep()
	for _, v := range cty.DeepValues(v) {
		switch {
		case IsText(v):
			out = append(out, v.AsString())
		case v.Type() == cty.Number && v.IsKnown() && !v.IsNull():
			out = append(out, v.AsBigFloat().Text('f', -1))
		}
	}
	return out
}

// SensitiveHere returns the error about a sensitive value that would be stored or shown.
func SensitiveHere(at hcl.Range, what string) hcl.Diagnostics {
	return ErrorAt(at, "Sensitive value", "%s is sensitive, and what stands here is stored in files and shown. "+
		"Sensitive values may be used in env and api_key of a runtime, in locals, in outputs and in arguments of "+
		"modules.", what)
}
