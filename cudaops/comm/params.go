package comm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/cudaops/dl"
	"aicplan/cudaops/driver"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nccl"
	"aicplan/cudaops/worker"
)

// params parses a case's parameters and keeps the first error.
type params struct {
	id     string
	values map[string]any
	err    error
}

func parseParams(c worker.Case) *params {
	p := &params{id: c.ID}
	d := json.NewDecoder(bytes.NewReader(c.Params))
	d.UseNumber()
	if err := d.Decode(&p.values); err != nil {
		p.fail(worker.ClassCollectorBug, "the case's parameters are no JSON object: %v", err)
	}
	return p
}

func (p *params) fail(class, format string, args ...any) {
	if p.err == nil {
		p.err = failure(class, format, args...)
	}
}

// text returns a parameter as text, or "" if it is missing. "case" is the case's id.
func (p *params) text(name string) string {
	if name == "case" {
		return p.id
	}

	v, ok := p.values[name]
	if !ok {
		return ""
	}
	return fmt.Sprint(v)
}

// whole returns a parameter that must be a whole number of at least least.
func (p *params) whole(name string, least int64) int64 {
	v, ok := p.values[name]
	if !ok {
		p.fail(worker.ClassCollectorBug, "parameter %q is missing", name)
		return least
	}

	n, ok := v.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil || i < least || i > 1<<42 {
		p.fail(worker.ClassCollectorBug, "parameter %q is %v; it must be a whole number of at least %d", name, v, least)
		return least
	}

	return i
}

// word returns a parameter that must be one of the allowed words.
func (p *params) word(name string, allowed ...string) string {
	v, ok := p.values[name].(string)
	if !ok {
		p.fail(worker.ClassCollectorBug, "parameter %q is missing or no text", name)
		return allowed[0]
	}

	if !slices.Contains(allowed, v) {
		p.fail(worker.ClassUnsupportedConfig, "parameter %q is %q; the nccl runtime has %s", name, v,
			strings.Join(allowed, ", "))
		return allowed[0]
	}
	return v
}

func (p *params) wordOr(name, def string, allowed ...string) string {
	if _, ok := p.values[name]; !ok {
		return def
	}
	return p.word(name, allowed...)
}

func (p *params) dataType(name string, allowed ...string) nccl.DataType {
	return dataTypes[p.word(name, allowed...)]
}

func typeWords() []string { return slices.Sorted(maps.Keys(dataTypes)) }

// failure returns an error with a failure class.
func failure(class, format string, args ...any) error {
	return &worker.FailureError{Failure: worker.Failure{Class: class, Message: fmt.Sprintf(format, args...)}}
}

// failureOf classifies an error. own is true if this process uses the devices, which then cannot continue
// after a lost device context.
func failureOf(err error, own bool) error {
	if err == nil {
		return nil
	}

	if fe, ok := errors.AsType[*worker.FailureError](err); ok {
		return fe
	}

	f := worker.Failure{Message: err.Error(), Exception: "CommError"}
	rank, _ := errors.AsType[*rankError](err)
	wrong, isWrong := errors.AsType[*wrongError](err)

	switch {
	case isWrong:
		f.Class, f.Exception, f.Message = worker.ClassFrameworkBug, "WrongResult", wrong.Error()
	case driver.OutOfMemory(err), rank != nil && rank.How == failMemory:
		f.Class, f.Exception = worker.ClassResourceIssue, "OutOfMemory"
	case errors.Is(err, measure.ErrTimer):
		f.Class = worker.ClassTransient
	case rank != nil && rank.How == failDied:
		f.Class, f.Exception = worker.ClassFrameworkBug, "RankDied"
	case rank != nil && rank.How == failHang:
		f.Class, f.Exception = worker.ClassTimeout, "RankHung"
	}

	f.Fatal = own && driver.Sticky(err)

	return &worker.FailureError{Failure: f}
}

// startFailure returns the error for a node that could not be opened.
func startFailure(err error) error {
	class := worker.ClassResourceIssue
	if dl.IsNotFound(err) {
		class = worker.ClassUnsupportedConfig
	}
	return &worker.StartError{Failure: worker.Failure{Class: class, Message: err.Error()}}
}
