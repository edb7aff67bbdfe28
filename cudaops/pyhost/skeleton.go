package pyhost

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed skeleton.py.tmpl
var skeletonPython string

//go:embed skeleton.hcl.tmpl
var skeletonPlan string

var opName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// keywords cannot name a Python function. Those with capitals are no op names
// anyway.
var keywords = strings.Fields(`and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda nonlocal not or pass raise return try while with yield`)

// OpSkeleton is a working start for a new op.
type OpSkeleton struct {
	Name string
	// File is the name of the file with the op function. It is not the op's:
	// an op may be called as a module is that the framework imports.
	File   string
	Python string // content of File
	Plan   string // content of NAME.hcl, a plan that collects it
}

// Skeleton returns a Python op function that measures something at once, and
// the plan that collects it; both work where there is neither a GPU nor torch,
// and say so in their rows. The name must be a Python identifier in lower case.
func Skeleton(name string) (OpSkeleton, error) {
	if !opName.MatchString(name) {
		return OpSkeleton{}, fmt.Errorf(
			"%q cannot name an op: use lower-case letters, digits and _, with a letter first", name)
	}
	if slices.Contains(keywords, name) {
		return OpSkeleton{}, fmt.Errorf("%q cannot name an op: it is a word of Python", name)
	}
	s := OpSkeleton{Name: name, File: strings.TrimSuffix(name, "_op") + "_op.py"}
	for _, part := range []struct {
		template string
		to       *string
	}{{skeletonPython, &s.Python}, {skeletonPlan, &s.Plan}} {
		t, err := template.New(name).Parse(part.template)
		if err != nil {
			return OpSkeleton{}, fmt.Errorf("skeleton: %w", err)
		}
		var b strings.Builder
		if err := t.Execute(&b, s); err != nil {
			return OpSkeleton{}, fmt.Errorf("skeleton: %w", err)
		}
		*part.to = b.String()
	}
	return s, nil
}
