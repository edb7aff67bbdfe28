package collect

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/grid"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// TestInstrumentOfPythonRows: the last change of how Python workers measure is
// about rows that they hold at the sustained point on a GPU. All others keep the
// version that they had, and with it their rows.
func TestInstrumentOfPythonRows(t *testing.T) {
	t.Parallel()
	h200 := &runtimes.Environment{Device: "NVIDIA H200", Env: map[string]string{"driver": "580.65.06", "sm": "90", "hostname": "node"}}
	imported := &runtimes.Environment{Device: "NVIDIA H200"}
	old := &runtimes.Environment{Device: "Tesla V100-SXM2-16GB", Env: map[string]string{"sm": "70"}}
	processor := &runtimes.Environment{Device: "AMD EPYC 9654", Env: map[string]string{"hostname": "node", "cuda": "13.0"}}
	for name, c := range map[string]struct {
		src  string
		op   string
		env  *runtimes.Environment
		cpu  bool // the runtime says so
		want int
	}{
		"by default":               {env: h200, want: 3},
		"said":                     {src: `measure { operating_point = "sustained" }`, env: h200, want: 3},
		"with power":               {src: `measure { power = true }`, env: h200, want: 4},
		"power by the reference":   {src: "measure {\n  protocol = \"reference\"\n  power = true\n}", env: h200, want: 4},
		"power without GPUs":       {src: `measure { power = true }`, env: processor, want: 2},
		"power off the GPUs":       {src: `measure { power = true }`, env: h200, cpu: true, want: 2},
		"an engine's, with power":  {op: "static_step", src: `measure { power = true }`, env: h200, want: 2},
		"rows from a file":         {env: imported, want: 3},
		"a GPU of another name":    {env: old, want: 3},
		"recovered":                {src: `measure { operating_point = "recovered" }`, env: h200, want: 2},
		"the reference protocol":   {src: `measure { protocol = "reference" }`, env: h200, want: 2},
		"a warm-up of its own":     {src: `measure { warmup_seconds = 0.1 }`, env: h200, want: 2},
		"a machine without GPUs":   {env: processor, want: 2},
		"kept off the GPUs":        {env: h200, cpu: true, want: 2},
		"an engine's steps":        {op: "static_step", env: h200, want: 2},
		"traces of an engine":      {op: "static_trace", env: h200, want: 2},
		"the op has another name":  {src: `op = "static_step"`, env: h200, want: 2},
		"collectors of all ranks":  {op: "custom_allreduce", env: h200, want: 2},
		"collectors with launcher": {op: "wideep", env: h200, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "op = \"gemm\"\naxis \"m\" { values = [1] }\n")
			b.runtime = &stage.Runtime{Name: "torch", Kind: "python", Framework: "torch", Address: "runtime.torch", Options: map[string]cty.Value{}}
			if c.cpu {
				b.runtime.Options["device"] = cty.StringVal("cpu")
			}
			cfg, diags := b.config(c.src)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			op := c.op
			if op == "" {
				op = "gemm"
			}
			if got := cfg.Context(&grid.Spec{Op: op}, c.env).Extra[instrumentWord]; got != c.want {
				t.Errorf("the rows have version %v of the instrument, want %d", got, c.want)
			}
		})
	}
}

// TestInstrumentOfCudaRows: graphs became longer for what this package's own kernels
// take, at every point, and stayed for users' kernels and the reference protocol.
func TestInstrumentOfCudaRows(t *testing.T) {
	t.Parallel()
	env := &runtimes.Environment{Device: "NVIDIA H200", Env: map[string]string{"sm": "90"}}
	for name, c := range map[string]struct {
		src  string
		op   string
		want int
	}{
		"by default":             {op: "gemm", want: 3},
		"recovered":              {op: "gemm", src: `measure { operating_point = "recovered" }`, want: 3},
		"a warm-up of its own":   {op: "gemm", src: `measure { warmup_seconds = 0.1 }`, want: 3},
		"a layer":                {op: "layer", want: 4},
		"memory":                 {op: "memory", want: 3},
		"the reference protocol": {op: "gemm", src: `measure { protocol = "reference" }`, want: 2},
		"a user's kernel":        {op: "scale", want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "op = \"gemm\"\naxis \"m\" { values = [1] }\n")
			b.runtime = &stage.Runtime{Name: "cuda", Kind: "cuda", Framework: "CUDA", Address: "runtime.cuda", Options: map[string]cty.Value{}}
			cfg, diags := b.config(c.src)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			if got := cfg.Context(&grid.Spec{Op: c.op}, env).Extra[instrumentWord]; got != c.want {
				t.Errorf("the rows have version %v of the instrument, want %d", got, c.want)
			}
		})
	}
}
