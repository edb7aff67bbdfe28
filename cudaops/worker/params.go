package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
)

// Params are the parameters of a case. The methods that read them keep the first error in Err.
type Params struct {
	Values map[string]any // numbers are json.Number
	Err    error          // a *FailureError
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

// WholeOr is Whole with a default for a missing parameter.
func (p *Params) WholeOr(name string, least, def int64) int64 {
	if _, ok := p.Values[name]; !ok {
		return def
	}
	return p.Whole(name, least)
}

// Text returns a parameter that must be a text.
func (p *Params) Text(name string) string {
	v, ok := p.Values[name]
	if !ok {
		p.Fail(ClassCollectorBug, "parameter %q is missing", name)
		return ""
	}

	s, ok := v.(string)
	if !ok {
		p.Fail(ClassCollectorBug, "parameter %q is %v; it must be a text", name, v)
	}
	return s
}

// Word returns a parameter that must be one of the allowed words. It returns the first of them after an error.
func (p *Params) Word(name string, allowed ...string) string {
	s := p.Text(name)
	if p.Err == nil && !slices.Contains(allowed, s) {
		p.Fail(ClassUnsupportedConfig, "parameter %q is %q; the runtime has %s", name, s, strings.Join(allowed, ", "))
	}
	if p.Err != nil {
		return allowed[0]
	}
	return s
}

// WordOr is Word with a default for a missing parameter.
func (p *Params) WordOr(name, def string, allowed ...string) string {
	if _, ok := p.Values[name]; !ok {
		return def
	}
	return p.Word(name, allowed...)
}

// Failed returns a *FailureError of a class.
func Failed(class, format string, args ...any) error {
	return &FailureError{Failure: Failure{Class: class, Message: fmt.Sprintf(format, args...)}}
}
