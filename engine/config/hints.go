package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
)

// impure are functions of other languages that read external state. Plans do not have them.
var impure = []string{"env", "getenv", "file", "fileexists", "fileset", "templatefile", "filebase64", "timestamp",
	"timeadd", "uuid", "random", "now", "abspath", "pathexpand"}

var functionName = regexp.MustCompile(`no function named "([^"]+)"`)

// hinted returns a copy of an HCL diagnostic about an unknown function with a suggestion.
func hinted(d *hcl.Diagnostic) *hcl.Diagnostic {
	m := functionName.FindStringSubmatch(d.Detail)
	if m == nil {
		return d
	}

	out := *d
	if slices.Contains(impure, m[1]) {
		out.Detail = fmt.Sprintf("There is no function named %q: plans read no environment, file or clock, so that the same plan means the same cases everywhere. Give what it would read as a variable, with --var or %sNAME.", m[1], envPrefix)
	} else {
		out.Detail = fmt.Sprintf("There is no function named %q.%s", m[1],
			didYouMean(m[1], slices.Sorted(maps.Keys(Functions()))))
	}

	return &out
}
