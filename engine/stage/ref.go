package stage

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/systems"
)

// Ref refers to a stage instance. In HCL it is the value of an expression such as grid.gemm or
// module.m.collect.gemm["fp8"].
type Ref struct {
	Address string
	Kind    string
}

// Runtime is a runtime block. It describes the workers that execute cases.
type Runtime struct {
	Name string
	// Kind is what runs the cases.
	Kind string `hcl:"kind"`
	// Framework is the label that the rows get, if it is not to be that of the workers.
	Framework string `hcl:"framework,optional"`
	// Env are environment variables of the workers.
	Env map[string]string `hcl:"env,optional"`
	// Launcher is the program with its arguments that starts each worker, such as a container or srun.
	Launcher []string `hcl:"launcher,optional"`
	// Image is the container image. The launcher gets it, and the rows record it.
	Image string `hcl:"image,optional"`
	// ImageDigest is the digest of the image according to the plan.
	ImageDigest string `hcl:"image_digest,optional"`
	// Workers is the number of workers on each device. The default is 1.
	Workers int `hcl:"workers,optional"`
	// Devices are the indices of the GPUs in PCI bus order. Without them, the runtime uses all visible GPUs.
	Devices []int `hcl:"devices,optional"`
	// Package is the distribution whose version counts.
	Package string `hcl:"package,optional"`
	// Requires is the required version of the package (PEP 440).
	Requires string `hcl:"requires,optional"`
	// Python is the interpreter. The default is "python3".
	Python string `hcl:"python,optional"`
	// CollectorRoot is a checkout of aiconfigurator whose collectors are run.
	CollectorRoot string `hcl:"collector_root,optional"`
	// Path are files and folders with op functions.
	Path []string `hcl:"path,optional"`
	// Options are the remaining attributes of the block, by name.
	Options map[string]cty.Value
	Range   hcl.Range
	Address string // runtime.NAME with its module path

	// These are not exported, so that code which lists the values of a runtime does not include them.
	secrets   map[string]cty.Value
	secretEnv map[string]string
	madeOf    []string
}

// KeepSecrets stores the values of secret options by name, the sensitive values of env (Env has textutil.Redacted
// in their place), and the texts that contain them.
func (rt *Runtime) KeepSecrets(options map[string]cty.Value, env map[string]string, madeOf []string) {
	rt.secrets, rt.secretEnv, rt.madeOf = options, env, madeOf
}

// Secrets returns the values of secret options, for the worker only.
func (rt *Runtime) Secrets() map[string]cty.Value { return rt.secrets }

// SecretEnv returns the sensitive values of env, for the worker only.
func (rt *Runtime) SecretEnv() map[string]string { return rt.secretEnv }

// SecretTexts returns the secrets as they may occur in text.
func (rt *Runtime) SecretTexts() []string {
	if len(rt.secrets)+len(rt.secretEnv) == 0 {
		return nil
	}
	out := append(slices.Collect(maps.Values(rt.secretEnv)), rt.madeOf...)
	for _, v := range rt.secrets {
		out = append(out, SensitiveTexts(v)...)
	}
	return out
}

// Part is a part block, whose blocks other blocks include. The kind that includes it checks its content.
type Part struct {
	Address string // part.NAME with its module path
	Body    hcl.Body
	Eval    Evaluator // of the module with the part
	Range   hcl.Range // of the whole block
}

var (
	// RefType, RuntimeType, SystemType and PartType are capsules that carry Go values through HCL, as the
	// attribute "ref" of a stage, runtime, system or part object.
	RefType     = cty.Capsule("stage", reflect.TypeFor[Ref]())
	RuntimeType = cty.Capsule("runtime", reflect.TypeFor[Runtime]())
	SystemType  = cty.Capsule("system", reflect.TypeFor[systems.Spec]())
	PartType    = cty.Capsule("part", reflect.TypeFor[Part]())
)

// RefOf returns the stage that v refers to. The error describes v if it is something else.
func RefOf(v cty.Value) (*Ref, error) {
	return unwrap[Ref](v, RefType, "a stage, such as collect.gemm")
}

// IsSet reports whether an optional attribute has a value.
func IsSet(v cty.Value) bool { return v != cty.NilVal && !v.IsNull() }

// InputsOf names stages name[0], name[1] and so on.
func InputsOf(name string, refs []*Ref, reference bool) []Input {
	var out []Input
	for i, r := range refs {
		out = append(out, Input{Name: fmt.Sprintf("%s[%d]", name, i), Ref: r, Reference: reference})
	}
	return out
}

// RefsOf returns the stages that v refers to: one, or a list or object of them in order. The error names the
// element that is not a reference.
func RefsOf(v cty.Value) ([]*Ref, error) {
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || IsRef(v) || !v.CanIterateElements() {
		r, err := RefOf(v)
		return []*Ref{r}, err
	}

	var out []*Ref
	for _, e := range v.Elements() {
		r, err := RefOf(e)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", len(out)+1, err)
		}
		out = append(out, r)
	}

	return out, nil
}

// RuntimeOf returns the runtime that v refers to.
func RuntimeOf(v cty.Value) (*Runtime, error) {
	return unwrap[Runtime](v, RuntimeType, "a runtime, such as runtime.cpu")
}

// SystemOf returns the system spec that v refers to.
func SystemOf(v cty.Value) (*systems.Spec, error) {
	return unwrap[systems.Spec](v, SystemType, "a system, such as system.h200_sxm")
}

// SystemName returns the name of the system that v refers to, or v itself if it is text. It is "" for null.
func SystemName(v cty.Value) (string, error) {
	switch {
	case v == cty.NilVal || v.IsNull():
		return "", nil
	case v.IsKnown() && v.Type() == cty.String:
		return v.AsString(), nil
	}

	spec, err := SystemOf(v)
	if err != nil {
		return "", err
	}
	return spec.Name, nil
}

// PartOf returns the part that v refers to.
func PartOf(v cty.Value) (*Part, error) {
	return unwrap[Part](v, PartType, "a part, such as part.sm_gate")
}

func unwrap[T any](v cty.Value, want cty.Type, what string) (*T, error) {
	if v == cty.NilVal || v.IsNull() {
		return nil, fmt.Errorf("a reference is needed: %s", what)
	}
	if !v.IsKnown() {
		return nil, fmt.Errorf(
			"which one is meant is known only after another stage has run; a reference is needed: %s",
			what,
		)
	}
	t := v.Type()
	if t.IsObjectType() && t.HasAttribute("ref") && t.AttributeType("ref").Equals(want) {
		return v.GetAttr("ref").EncapsulatedValue().(*T), nil
	}
	if t.IsObjectType() && !IsRef(v) {
		for _, e := range v.Elements() {
			if IsRef(e) {
				return nil, fmt.Errorf("this is several by key; name one, such as %s, or use each.value in a "+
					"block with for_each", strings.TrimPrefix(describe(e), "the stage "))
			}
		}
	}
	return nil, fmt.Errorf("this is %s; it must refer to %s", describe(v), what)
}

// describe describes a value that is not a reference of the expected type.
func describe(v cty.Value) string {
	if !IsRef(v) {
		return v.Type().FriendlyName()
	}
	switch r := v.GetAttr("ref").EncapsulatedValue().(type) {
	case *Ref:
		return "the stage " + r.Address
	case *Runtime:
		return r.Address
	case *Part:
		return r.Address
	case *Service:
		return r.Address
	default:
		return "the system " + r.(*systems.Spec).Name
	}
}

// IsRef reports whether v is an object that refers to a stage, runtime, system, part or service.
func IsRef(v cty.Value) bool {
	if v == cty.NilVal || !v.Type().IsObjectType() || !v.Type().HasAttribute("ref") {
		return false
	}
	return slices.ContainsFunc([]cty.Type{RefType, RuntimeType, SystemType, PartType, ServiceType},
		v.Type().AttributeType("ref").Equals)
}
