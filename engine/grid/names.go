package grid

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/sink/base/textutil"
)

// reservedRoots are root names that plan expressions use. An axis with such a name would hide them.
var reservedRoots = []string{
	"var", "local", "system", "runtime", "module", "part", "each", "path",
	"preflight", "grid", "import", "collect", "dedupe", "gate", "verify", "export", "report",
	"telemetry", "executor", "publish",
}

// recordColumns are columns of every case table.
var recordColumns = []string{"case_id", "status"}

// measuredColumns are filled in by the measurement, so a parameter with such a name would be
// overwritten. kernel_source and op_name are not listed because a grid may set them.
var measuredColumns = []string{
	"framework", "version", "device", "latency", "samples", "rel_stdev", "p10", "p90", "used_cuda_graph",
	"sm_clock_mhz", "throttled", "launch_bound",
	"attempts", "worker", "device_uuid", "started_at",
}

// checkName reports names that an axis, field, derived value or constant cannot have. what is "name" or "field name".
func (d *decoder) checkName(name string, rng hcl.Range, what string) {
	words := []string{"true", "false", "null", "for", "if", "in"}
	switch summary := "Invalid " + what; {
	case !hclsyntax.ValidIdentifier(name) || strings.Contains(name, "-"):
		d.errorf(rng, summary,
			"%q cannot be used in expressions: use letters, digits and underscores, beginning with a letter.", name)
	case slices.Contains(words, name):
		d.errorf(rng, summary, "%q is a word of the language; choose another name.", name)
	case slices.Contains(reservedRoots, name):
		d.errorf(rng, summary, "%q would hide %s.* in the grid's expressions; choose another name.", name, name)
	case slices.Contains(recordColumns, name):
		d.errorf(rng, summary, "%q is a column of every case table; choose another name.", name)
	case slices.Contains(measuredColumns, name):
		d.errorf(rng, summary, "%q is a column that the measurement fills in; choose another name.", name)
	}
}

// union appends those of more to list that are not in it.
func union[T comparable](list []T, more ...T) []T {
	for _, v := range more {
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// nearestValue returns the canonical text of the sample that v may be a misspelling of, or "". It
// considers only text.
func nearestValue(v cty.Value, samples []string) string {
	if v.IsNull() || v.Type() != cty.String {
		return ""
	}
	var texts []string
	for _, s := range samples {
		texts = append(texts, strings.Trim(s, `"`))
	}

	if near := textutil.Nearest(v.AsString(), texts); near != "" {
		return `"` + near + `"`
	}

	return ""
}

func errorAt(rng hcl.Range, summary, format string, args ...any) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...),
		Subject: rng.Ptr()}
}

func warnAt(rng hcl.Range, summary, format string, args ...any) *hcl.Diagnostic {
	d := errorAt(rng, summary, format, args...)
	d.Severity = hcl.DiagWarning
	return d
}

// located sets the Subject of every diagnostic without one to rng.
func located(diags hcl.Diagnostics, rng hcl.Range) hcl.Diagnostics {
	for _, d := range diags {
		if d.Subject == nil {
			d.Subject = rng.Ptr()
		}
	}
	return diags
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return `"` + strings.Join(names, `", "`) + `"`
}
