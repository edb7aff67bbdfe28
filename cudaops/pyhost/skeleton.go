package pyhost

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"text/template"
)

//go:embed skeleton.py.tmpl
var skeletonPython string

//go:embed skeleton.hcl.tmpl
var skeletonPlan string

var opName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// OpSkeleton is a working start for a new op.
type OpSkeleton struct {
	Name   string
	Python string // content of NAME.py
	Plan   string // content of a plan that collects it
}

// Skeleton returns a Python op function that measures something at once, and
// the plan blocks that collect it. The name must be a Python identifier in
// lower case.
func Skeleton(name string) (OpSkeleton, error) {
	if !opName.MatchString(name) {
		return OpSkeleton{}, fmt.Errorf("%q cannot name an op: use lower-case letters, digits and _, with a letter first", name)
	}
	python, err := fill(skeletonPython, name)
	if err != nil {
		return OpSkeleton{}, err
	}
	plan, err := fill(skeletonPlan, name)
	if err != nil {
		return OpSkeleton{}, err
	}
	return OpSkeleton{Name: name, Python: python, Plan: plan}, nil
}

func fill(text, name string) (string, error) {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return "", fmt.Errorf("skeleton: %w", err)
	}
	var b strings.Builder
	if err := t.Execute(&b, struct{ Name string }{name}); err != nil {
		return "", fmt.Errorf("skeleton: %w", err)
	}
	return b.String(), nil
}
