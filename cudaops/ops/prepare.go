package ops

import (
	"fmt"
	"slices"
	"strings"

	"aicplan/cudaops/worker"
)

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

// words are the allowed values of text parameters, by op and parameter.
var words = map[string]map[string][]string{
	OpGEMM:        {"gemm_dtype": gemmTypes},
	OpLayer:       {"gemm_dtype": gemmTypes},
	OpMLAPre:      {"bmm_dtype": {"bfloat16", "float16", "fp8"}},
	OpMLAPost:     {"bmm_dtype": {"bfloat16", "float16", "fp8"}},
	OpMemory:      {"kernel": {"copy", "triad", "reduce"}},
	OpElementwise: {"kernel": ElementwiseKernels, "dtype": {"bfloat16", "float16"}},
}

var gemmTypes = []string{"bfloat16", "float16", "fp8", "fp8_block", "int8"}

// Words returns the allowed values of text parameters, by op and parameter.
func Words() map[string]map[string][]string { return words }

// operation is an op with the parameters of a case.
type operation interface {
	prepare(d *Device) (*Case, error)
}

// prepare prepares the case of an op.
func (d *Device) prepare(c worker.Case, bindings map[string]*KernelBinding) (*Case, error) {
	if len(c.Sweep) > 0 {
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "op %q of the cuda runtime has no sweep; make it an axis",
			c.Op)
	}

	p := worker.ParseParams(c)
	if p.Err != nil {
		return nil, p.Err
	}

	if b, ok := bindings[c.Op]; ok {
		return d.Kernel(b, fmt.Sprintf("%s %s", c.Op, c.Params), p.Values)
	}

	var op operation
	word := func(name string) string { return p.Word(name, words[c.Op][name]...) }
	switch c.Op {
	case OpGEMM:
		op = GEMM{Type: word("gemm_dtype"), M: p.Whole("m", 1), N: p.Whole("n", 1), K: p.Whole("k", 1)}
	case OpMLAPre, OpMLAPost:
		op = MLABMM{Type: word("bmm_dtype"), Tokens: p.Whole("num_tokens", 1), Heads: p.Whole("num_heads", 1),
			Post: c.Op == OpMLAPost}
	case OpMemory:
		op = Memory{Kernel: word("kernel"), Size: p.Whole("size_bytes", 1)}
	case OpElementwise:
		op = Elementwise{Kernel: word("kernel"), Type: word("dtype"), Tokens: p.Whole("num_tokens", 1),
			Hidden: p.Whole("hidden_size", 1)}
	case OpLayer:
		op = parseLayer(p)
	case OpKernel:
		return nil, worker.Failed(worker.ClassCollectorBug, "op kernel needs a binding that names the kernel's source")
	default:
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "the cuda runtime has no op %q; it has %s", c.Op,
			strings.Join(slices.Sorted(slices.Values(Names)), ", "))
	}

	if p.Err != nil {
		return nil, p.Err
	}
	return op.prepare(d)
}
