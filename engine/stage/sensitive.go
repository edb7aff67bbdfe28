package stage

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Sensitive marks values that are never shown or stored. Marks pass through
// expressions: what is made of a sensitive value is sensitive.
const Sensitive = sensitive("sensitive")

type sensitive string

// IsText reports whether a value is a known string.
func IsText(v cty.Value) bool { return v.Type() == cty.String && v.IsKnown() && !v.IsNull() }

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
