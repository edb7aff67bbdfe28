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

	switch c.Op {
	case OpGEMM:
		g := GEMM{Type: p.Text("gemm_dtype"), M: p.Whole("m", 1), N: p.Whole("n", 1), K: p.Whole("k", 1)}
		if p.Err != nil {
			return nil, p.Err
		}

		return d.GEMM(g)
	case OpMLAPre, OpMLAPost:
		b := MLABMM{Type: p.Text("bmm_dtype"), Tokens: p.Whole("num_tokens", 1), Heads: p.Whole("num_heads", 1),
			Post: c.Op == OpMLAPost}
		if p.Err != nil {
			return nil, p.Err
		}

		return d.MLABMM(b)
	case OpMemory:
		m := Memory{Kernel: p.Text("kernel"), Size: p.Whole("size_bytes", 1), Peer: int(p.WholeOr("peer", 0, -1))}
		if p.Err != nil {
			return nil, p.Err
		}

		return d.Memory(m)
	case OpElementwise:
		e := Elementwise{Kernel: p.Text("kernel"), Type: p.Text("dtype"), Tokens: p.Whole("num_tokens", 1),
			Hidden: p.Whole("hidden_size", 1)}
		if p.Err != nil {
			return nil, p.Err
		}

		return d.Elementwise(e)
	case OpLayer:
		l := parseLayer(p)
		if p.Err != nil {
			return nil, p.Err
		}

		return d.Layer(l)
	case OpKernel:
		return nil, worker.Failed(worker.ClassCollectorBug, "op kernel needs a binding that names the kernel's source")
	}

	return nil, worker.Failed(worker.ClassUnsupportedConfig, "the cuda runtime has no op %q; it has %s", c.Op,
		strings.Join(slices.Sorted(slices.Values(Names)), ", "))
}
