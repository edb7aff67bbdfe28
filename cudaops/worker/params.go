package worker

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/textutil"
)

// Params are the parameters of a case. The methods that read them keep the first error in Err.
type Params struct {
	Values map[string]any // numbers are json.Number
	Err    error          // a *Failure
}

// maxWhole is the maximum of a whole number. Products of such a number and the size of an element fit into 64 bits.
const maxWhole = 1 << 42

// ParseParams decodes the parameters of a case.
func ParseParams(c Case) *Params {
	p := &Params{}
	if err := textutil.DecodeJSON(c.Params, &p.Values); err != nil {
		p.Fail(ClassCollectorBug, "the case's parameters are no JSON object: %v", err)
	}
	return p
}

// Fail sets the error if there is none yet.
func (p *Params) Fail(class, format string, args ...any) {
	if p.Err == nil {
		p.Err = Failed(class, format, args...)
	}
}

// Whole returns a parameter that must be a whole number of at least least.
func (p *Params) Whole(name string, least int64) int64 {
	v, ok := p.Values[name]
	if !ok {
		p.Fail(ClassCollectorBug, "parameter %q is missing", name)
		return least
	}

	n, ok := v.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil || i < least || i > maxWhole {
		p.Fail(ClassCollectorBug, "parameter %q is %v; it must be a whole number of at least %d and at most %d", name, v,
			least, int64(maxWhole))
		return least
	}
	return i
}

// word returns a parameter that must be a text, and one of the allowed words if there are any.
func (p *Params) word(name string, allowed []string) string {
	v, ok := p.Values[name]
	if !ok {
		p.Fail(ClassCollectorBug, "parameter %q is missing", name)
		return ""
	}

	s, ok := v.(string)
	if !ok {
		p.Fail(ClassCollectorBug, "parameter %q is %v; it must be a text", name, v)
	} else if len(allowed) > 0 && !slices.Contains(allowed, s) {
		p.Fail(ClassUnsupportedConfig, "parameter %q is %q; the runtime has %s", name, s, strings.Join(allowed, ", "))
	}
	return s
}

// Read sets the fields of a struct from the parameters that their tags name. Fields are of type int64, with a value of
// at least 1 or what the tag least has, or string, with one of the words of the tag words if there is one. A field
// with the tag optional keeps its value if the parameter is missing:
//
//	Tokens  int64  `param:"num_tokens"`
//	Type    string `param:"gemm_dtype" words:"bfloat16 fp8"`
//	Threads int64  `param:"threads" optional:"true"`
func (p *Params) Read(to any) {
	fields := reflect.ValueOf(to).Elem()
	for _, f := range reflect.VisibleFields(fields.Type()) {
		name := f.Tag.Get("param")
		_, there := p.Values[name]
		if name == "" || !there && f.Tag.Get("optional") != "" {
			continue
		}

		switch at := fields.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *string:
			*at = p.word(name, strings.Fields(f.Tag.Get("words")))
		case *int64:
			least, err := strconv.ParseInt(f.Tag.Get("least"), 10, 64)
			if err != nil {
				least = 1
			}
			*at = p.Whole(name, least)
		}
	}
}

// Op describes an op of a native runtime for checks of plans: the parameters that its cases need, and the words that
// texts among them may be.
type Op struct {
	Name  string
	Needs []string
	Words map[string][]string
	// Option is the name of the boolean option that adds the op. It is empty if the op is always available.
	Option string
	// Bound is set if the op needs a binding.
	Bound bool
}

// Describe returns the description of an op by the struct that Read fills.
func Describe(name string, params any) Op {
	op := Op{Name: name, Words: map[string][]string{}}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(params).Elem()) {
		column := f.Tag.Get("param")
		if column == "" || f.Tag.Get("optional") != "" {
			continue
		}

		op.Needs = append(op.Needs, column)
		if words := strings.Fields(f.Tag.Get("words")); len(words) > 0 {
			op.Words[column] = words
		}
	}
	return op
}

// Failed returns a *Failure of a class.
func Failed(class, format string, args ...any) error {
	return &Failure{Class: class, Message: fmt.Sprintf(format, args...)}
}
