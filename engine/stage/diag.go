package stage

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
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

// Errors returns a function that appends errors at a place to diags.
func Errors(diags *hcl.Diagnostics, at hcl.Range) func(summary, format string, args ...any) {
	return func(summary, format string, args ...any) {
		*diags = append(*diags, ErrorAt(at, summary, format, args...)...)
	}
}
