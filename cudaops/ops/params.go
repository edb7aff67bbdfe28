package ops

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aicplan/cudaops/worker"
)

// params parses a case's parameters and keeps the first error.
type params struct {
	values map[string]any
	err    error
}

func parseParams(raw json.RawMessage) *params {
	p := &params{}
	var err error
	if p.values, err = worker.DecodeParams(raw); err != nil {
		p.fail("the case's parameters are not a JSON object: %v", err)
	}

	return p
}

func (p *params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = failure(worker.ClassCollectorBug, format, args...)
	}
}

// whole returns a parameter that must be a whole number of at least least.
func (p *params) whole(name string, least int64) int64 {
	v, ok := p.values[name]
	if !ok {
		p.fail("parameter %q is missing", name)
		return least
	}

	n, ok := v.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil || i < least {
		p.fail("parameter %q is %v; it must be a whole number of at least %d", name, v, least)
		return least
	}

	return i
}

// wholeOr is whole with a default for a missing parameter.
func (p *params) wholeOr(name string, least, def int64) int64 {
	if _, ok := p.values[name]; !ok {
		return def
	}

	return p.whole(name, least)
}

// word returns a parameter that must be a text.
func (p *params) word(name string) string {
	v, ok := p.values[name]
	if !ok {
		p.fail("parameter %q is missing", name)
		return ""
	}

	s, ok := v.(string)
	if !ok {
		p.fail("parameter %q is %v; it must be a text", name, v)
	}

	return s
}

// failure returns an error with a failure class.
func failure(class, format string, args ...any) error {
	return &worker.FailureError{Failure: worker.Failure{Class: class, Message: fmt.Sprintf(format, args...)}}
}

// The ops of the cuda runtime.
const (
	OpGEMM        = "gemm"
	OpMLAPre      = "mla_bmm_gen_pre"
	OpMLAPost     = "mla_bmm_gen_post"
	OpMemory      = "memory"
	OpElementwise = "elementwise"
	OpKernel      = "kernel"
)

// Names are the ops of cuda runtimes. Ops that a collect binds to the source of a kernel may have
// any name.
var Names = []string{OpElementwise, OpGEMM, OpKernel, OpLayer, OpMemory, OpMLAPost, OpMLAPre}

// Needs returns the required parameters by op. Cases of a bound kernel need those that its binding
// names.
func Needs() map[string][]string {
	return map[string][]string{
		OpGEMM:        {"gemm_dtype", "m", "n", "k"},
		OpMLAPre:      {"bmm_dtype", "num_tokens", "num_heads"},
		OpMLAPost:     {"bmm_dtype", "num_tokens", "num_heads"},
		OpMemory:      {"kernel", "size_bytes"},
		OpElementwise: {"kernel", "dtype", "num_tokens", "hidden_size"},
		OpLayer:       {"gemm_dtype", "m", "shapes"},
		OpKernel:      nil,
	}
}

// Words returns the allowed values of text parameters, by op and parameter.
func Words() map[string]map[string][]string {
	gemm := []string{"bfloat16", "float16", "fp8", "fp8_block", "int8"}
	bmm := map[string][]string{"bmm_dtype": {"bfloat16", "float16", "fp8"}}
	return map[string]map[string][]string{
		OpGEMM:        {"gemm_dtype": gemm},
		OpLayer:       {"gemm_dtype": gemm},
		OpMLAPre:      bmm,
		OpMLAPost:     bmm,
		OpMemory:      {"kernel": {"copy", "triad", "reduce"}},
		OpElementwise: {"kernel": ElementwiseKernels, "dtype": {"bfloat16", "float16"}},
	}
}

// prepare prepares the case of an op.
func (d *Device) prepare(c worker.Case, bindings map[string]*KernelBinding) (*Case, error) {
	if len(c.Sweep) > 0 {
		return nil, failure(worker.ClassUnsupportedConfig, "op %q of the cuda runtime has no sweep; make it an axis",
			c.Op)
	}

	p := parseParams(c.Params)
	if p.err != nil {
		return nil, p.err
	}

	if b, ok := bindings[c.Op]; ok {
		return d.Kernel(b, fmt.Sprintf("%s %s", c.Op, c.Params), p.values)
	}

	switch c.Op {
	case OpGEMM:
		g := GEMM{Type: p.word("gemm_dtype"), M: p.whole("m", 1), N: p.whole("n", 1), K: p.whole("k", 1)}
		if p.err != nil {
			return nil, p.err
		}

		return d.GEMM(g)
	case OpMLAPre, OpMLAPost:
		b := MLABMM{Type: p.word("bmm_dtype"), Tokens: p.whole("num_tokens", 1), Heads: p.whole("num_heads", 1),
			Post: c.Op == OpMLAPost}
		if p.err != nil {
			return nil, p.err
		}

		return d.MLABMM(b)
	case OpMemory:
		m := Memory{Kernel: p.word("kernel"), Size: p.whole("size_bytes", 1), Peer: int(p.wholeOr("peer", 0, -1))}
		if p.err != nil {
			return nil, p.err
		}

		return d.Memory(m)
	case OpElementwise:
		e := Elementwise{Kernel: p.word("kernel"), Type: p.word("dtype"), Tokens: p.whole("num_tokens", 1),
			Hidden: p.whole("hidden_size", 1)}
		if p.err != nil {
			return nil, p.err
		}

		return d.Elementwise(e)
	case OpLayer:
		l := p.layer()
		if p.err != nil {
			return nil, p.err
		}

		return d.Layer(l)
	case OpKernel:
		return nil, failure(worker.ClassCollectorBug, "op kernel needs a binding that names the kernel's source")
	}

	return nil, failure(worker.ClassUnsupportedConfig, "the cuda runtime has no op %q; it has %s", c.Op,
		strings.Join(slices.Sorted(slices.Values(Names)), ", "))
}
