package cpu

import (
	"context"
	"runtime"
	"sync"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/floats"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// kernel is one executable piece of work on prepared operands.
type kernel struct {
	source string // the routine that runs
	run    func()
	bytes  float64 // moved by one execution: every operand once
	flops  float64
}

// Block implements measure.Target.
func (k *kernel) Block(ctx context.Context, n int) (measure.Block, error) {
	began := time.Now()
	for i := range n {
		// A block of long executions must still notice that the engine is gone.
		if i&63 == 0 && ctx.Err() != nil {
			return measure.Block{}, ctx.Err()
		}
		k.run()
	}
	return measure.Block{Seconds: time.Since(began).Seconds()}, nil
}

// measured times a kernel and makes its row.
func (e *env) measured(ctx context.Context, k *kernel) (worker.Row, error) {
	// Executions of one thread stay on it, and Go's scheduler out of them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := measure.Fastest(ctx, k, e.clock, e.settings)
	if err != nil {
		return nil, err
	}
	row := worker.Row(r.Columns())
	row["kernel_source"] = k.source
	row["bytes"] = k.bytes
	row["flops"] = k.flops
	return row, nil
}

// runGemm measures y = x W^T with x of m x k and W of n x k, as a linear layer
// computes it. Parameters: gemm_dtype (float32, float64), m, n, k.
func runGemm(ctx context.Context, e *env, c worker.Case) ([]worker.Row, error) {
	p := parseParams(c.Params)
	dtype := p.word("gemm_dtype", gemmTypes...)
	m, n, k := p.size("m"), p.size("n"), p.size("k")
	if p.err != nil {
		return nil, p.err
	}
	kern, err := gemmKernel(e, dtype, m, n, k)
	if err != nil {
		return nil, err
	}
	row, err := e.measured(ctx, kern)
	if err != nil {
		return nil, err
	}
	row["threads"] = runtime.GOMAXPROCS(0)
	row["gflop_per_s"] = kern.flops / row["latency"].(float64) / 1e6
	return []worker.Row{row}, nil
}

func gemmKernel(e *env, dtype string, m, n, k int) (*kernel, error) {
	elements := float64(m)*float64(k) + float64(n)*float64(k) + float64(m)*float64(n)
	if elements > 1<<40 {
		return nil, failure(worker.ClassResourceIssue, "operands of %g elements do not fit", elements)
	}
	kern := &kernel{flops: 2 * float64(m) * float64(n) * float64(k)}
	if dtype == "float32" {
		o, err := e.f32.get(m*k, n*k, m*n)
		if err != nil {
			return nil, err
		}
		kern.source, kern.bytes = "gonum.Sgemm", 4*elements
		kern.run = func() {
			gonum.Implementation{}.Sgemm(blas.NoTrans, blas.Trans, m, n, k, 1, o[0], k, o[1], k, 0, o[2], n)
		}
		return kern, nil
	}
	o, err := e.f64.get(m*k, n*k, m*n)
	if err != nil {
		return nil, err
	}
	kern.source, kern.bytes = "gonum.Dgemm", 8*elements
	kern.run = func() {
		gonum.Implementation{}.Dgemm(blas.NoTrans, blas.Trans, m, n, k, 1, o[0], k, o[1], k, 0, o[2], n)
	}
	return kern, nil
}

// streamScalar is the factor of scale and triad. It is below 1 so that values
// stay finite however often a kernel runs.
const streamScalar = 0.5

// runMemory measures one of the four STREAM kernels on float64 arrays of
// size_bytes each. Parameters: kernel (copy, scale, add, triad), size_bytes,
// and optionally threads (1).
func runMemory(ctx context.Context, e *env, c worker.Case) ([]worker.Row, error) {
	p := parseParams(c.Params)
	name := p.word("kernel", memoryKernels...)
	size := p.size("size_bytes")
	threads := p.sizeOr("threads", 1)
	if p.err == nil && size%8 != 0 {
		p.failClass(worker.ClassUnsupportedConfig, "size_bytes is %d; arrays hold float64 values, so it must be a multiple of 8", size)
	}
	if p.err == nil && threads > size/8 {
		p.failClass(worker.ClassUnsupportedConfig, "%d threads for an array of %d elements", threads, size/8)
	}
	if p.err != nil {
		return nil, p.err
	}
	kern, err := memoryKernel(e, name, size, threads)
	if err != nil {
		return nil, err
	}
	row, err := e.measured(ctx, kern)
	if err != nil {
		return nil, err
	}
	row["gb_per_s"] = kern.bytes / row["latency"].(float64) / 1e6
	return []worker.Row{row}, nil
}

func memoryKernel(e *env, name string, size, threads int) (*kernel, error) {
	n := size / 8
	o, err := e.f64.get(n, n, n)
	if err != nil {
		return nil, err
	}
	kern := &kernel{}
	var part func(a, b, c []float64)
	switch name {
	case "copy":
		kern.source, kern.bytes = "runtime.memmove", 16*float64(n)
		part = func(a, _, c []float64) { copy(c, a) }
	case "scale":
		kern.source, kern.bytes, kern.flops = "floats.ScaleTo", 16*float64(n), float64(n)
		part = func(a, _, c []float64) { floats.ScaleTo(c, streamScalar, a) }
	case "add":
		kern.source, kern.bytes, kern.flops = "floats.AddTo", 24*float64(n), float64(n)
		part = func(a, b, c []float64) { floats.AddTo(c, a, b) }
	case "triad":
		kern.source, kern.bytes, kern.flops = "floats.AddScaledTo", 24*float64(n), 2*float64(n)
		part = func(a, b, c []float64) { floats.AddScaledTo(c, a, streamScalar, b) }
	}
	if threads == 1 {
		kern.run = func() { part(o[0], o[1], o[2]) }
		return kern, nil
	}
	kern.run = func() {
		var wg sync.WaitGroup
		for t := range threads {
			lo, hi := n*t/threads, n*(t+1)/threads
			wg.Go(func() { part(o[0][lo:hi], o[1][lo:hi], o[2][lo:hi]) })
		}
		wg.Wait()
	}
	return kern, nil
}
