package stage

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
)

// ErrorAt returns an error about a place in a plan. Its detail is formatted as by fmt.Sprintf.
func ErrorAt(at hcl.Range, summary, format string, args ...any) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &at}}
}
