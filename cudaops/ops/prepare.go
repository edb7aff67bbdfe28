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

// operation is an op with the parameters of a case.
type operation interface {
	prepare(d *Device) (*Case, error)
}

// operations creates the ops that need no binding, by name.
var operations = map[string]func() operation{
	OpGEMM:        func() operation { return new(GEMM) },
	OpMLAPre:      func() operation { return new(MLABMM) },
	OpMLAPost:     func() operation { return &MLABMM{Post: true} },
	OpMemory:      func() operation { return new(Memory) },
	OpElementwise: func() operation { return new(Elementwise) },
	OpLayer:       func() operation { return new(Layer) },
}

// Ops describes the ops of cuda runtimes. Ops that a collect binds to the source of a kernel may have any name. Their
// cases need the parameters that the binding names.
func Ops() []worker.Op {
	out := []worker.Op{{Name: OpKernel, Bound: true}}
	for name, create := range operations {
		out = append(out, worker.Describe(name, create()))
	}
	return out
}

// opNames returns the names of Ops.
func opNames() (names []string) {
	for _, op := range Ops() {
		names = append(names, op.Name)
	}
	return names
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

	create, ok := operations[c.Op]
	switch {
	case c.Op == OpKernel:
		return nil, worker.Failed(worker.ClassCollectorBug, "op kernel needs a binding that names the kernel's source")
	case !ok:
		return nil, worker.Failed(worker.ClassUnsupportedConfig, "the cuda runtime has no op %q; it has %s", c.Op,
			strings.Join(slices.Sorted(slices.Values(opNames())), ", "))
	}

	op := create()
	if p.Read(op); p.Err != nil {
		return nil, p.Err
	}
	return op.prepare(d)
}
