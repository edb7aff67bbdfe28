package cpu

import (
	"context"
	"math"
	"time"

	gonumblas "gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/floats"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// kernel is a unit of work on prepared operands.
type kernel struct {
	source  string // name of the routine
	threads int
	part    func(thread int) // runs the part of one thread
	team    *team            // runs the parts; nil means the calling thread runs all of them
	bytes   float64          // bytes moved by one execution, counting each operand once
	flops   float64
}

// run runs one execution.
func (k *kernel) run() {
	if k.team == nil {
		for t := range k.threads {
			k.part(t)
		}
		return
	}
	k.team.run(k.part)
}

// Block implements measure.Target.
func (k *kernel) Block(ctx context.Context, n int) (measure.Block, error) {
	began := time.Now()
	for i := range n {
		// Check regularly, because a block of long executions must stop if ctx is done.
		if i&63 == 0 && ctx.Err() != nil {
			return measure.Block{}, ctx.Err()
		}
		k.run()
	}
	return measure.Block{Seconds: time.Since(began).Seconds()}, nil
}

// gemm is y = x W^T with x of m x k and W of n x k, as in a linear layer.
type gemm struct {
	Type    string `param:"gemm_dtype" words:"float32 float64"`
	M       int64  `param:"m"`
	N       int64  `param:"n"`
	K       int64  `param:"k"`
	Threads int64  `param:"threads" optional:"true"`
}

func (g *gemm) open(e *env) (*visits, error) {
	if err := checkThreads(g.Threads); err != nil {
		return nil, err
	}
	return e.visits(func() (*kernel, error) { return gemmKernel(e, g.Type, int(g.M), int(g.N), int(g.K), int(g.Threads)) },
		func(row worker.Row, kern *kernel) {
			row["gflop_per_s"] = kern.flops / row["latency"].(float64) / 1e6
		})
}

func checkThreads(threads int64) error {
	if threads > maxThreads {
		return worker.Failed(worker.ClassUnsupportedConfig, "%d threads; %d at most", threads, maxThreads)
	}
	return nil
}

// Tile size of a product. gonum computes a product of at most this size on the calling thread. For larger
// ones it starts goroutines, which are not pinned to CPUs.
const (
	tileRows    = 64
	tileColumns = 192
	maxThreads  = 1024
)

// tiles calls do for every share-th tile of an m x n product, starting with tile number first.
func tiles(m, n, first, share int, do func(i, j, rows, columns int)) {
	at := 0
	for i := 0; i < m; i += tileRows {
		for j := 0; j < n; j += tileColumns {
			if at%share == first {
				do(i, j, min(tileRows, m-i), min(tileColumns, n-j))
			}
			at++
		}
	}
}

func gemmKernel(e *env, dtype string, m, n, k, threads int) (*kernel, error) {
	elements := float64(m)*float64(k) + float64(n)*float64(k) + float64(m)*float64(n)
	if elements > 1<<40 || max(m, n, k) > math.MaxInt32 {
		return nil, worker.Failed(worker.ClassResourceIssue, "operands of %g elements do not fit", elements)
	}

	kern := &kernel{flops: 2 * float64(m) * float64(n) * float64(k), threads: threads}
	if dtype == "float32" {
		kern.bytes = 4 * elements
		return kern, multiply(kern, &e.f32, m, n, k, e.blas.routine("Sgemm"), gonum.Implementation{}.Sgemm)
	}
	kern.bytes = 8 * elements
	return kern, multiply(kern, &e.f64, m, n, k, e.blas.routine("Dgemm"), gonum.Implementation{}.Dgemm)
}

// gemmFunc is gonum's matrix product by rows.
type gemmFunc[T float32 | float64] func(tA, tB gonumblas.Transpose, m, n, k int, alpha T, a []T, lda int,
	b []T, ldb int, beta T, c []T, ldc int)

// multiply sets the work of a product y = x W^T. It is computed by a library if r has one, else by own.
func multiply[T float32 | float64](kern *kernel, memory *arena[T], m, n, k int, r routine, own gemmFunc[T]) error {
	o, err := memory.get(m*k, n*k, m*n)
	if err != nil {
		return err
	}

	kern.source = r.source
	if r.address != 0 {
		parts := make([]func(), kern.threads)
		for t := range parts {
			parts[t] = part(r.address, m, n, k, t, kern.threads, o[0], o[1], o[2])
		}
		kern.part = func(t int) { parts[t]() }
		return nil
	}

	kern.part = func(t int) {
		tiles(m, n, t, kern.threads, func(i, j, rows, columns int) {
			own(gonumblas.NoTrans, gonumblas.Trans, rows, columns, k, 1, o[0][i*k:], k, o[1][j*k:], k, 0, o[2][i*n+j:], n)
		})
	}
	return nil
}

// streamScalar is the factor of scale and triad. It is below 1 so that values remain finite after many
// executions.
const streamScalar = 0.5

// memory is one of the four STREAM kernels on float64 arrays of Size bytes each.
type memory struct {
	Kernel  string `param:"kernel" words:"copy scale add triad"`
	Size    int64  `param:"size_bytes"`
	Threads int64  `param:"threads" optional:"true"`
}

func (m *memory) open(e *env) (*visits, error) {
	if err := checkThreads(m.Threads); err != nil {
		return nil, err
	}

	switch {
	case m.Size%8 != 0:
		return nil, worker.Failed(worker.ClassUnsupportedConfig,
			"size_bytes is %d; arrays consist of float64 values, so it must be a multiple of 8", m.Size)
	case m.Threads > m.Size/8:
		return nil, worker.Failed(worker.ClassUnsupportedConfig,
			"%d threads for an array of %d elements", m.Threads, m.Size/8)
	}
	return e.visits(func() (*kernel, error) { return memoryKernel(e, m.Kernel, int(m.Size), int(m.Threads)) },
		func(row worker.Row, kern *kernel) {
			row["gb_per_s"] = kern.bytes / row["latency"].(float64) / 1e6
		})
}

func memoryKernel(e *env, name string, size, threads int) (*kernel, error) {
	n := size / 8
	o, err := e.f64.get(n, n, n)
	if err != nil {
		return nil, err
	}

	kern := &kernel{threads: threads}
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

	kern.part = func(t int) {
		lo, hi := n*t/threads, n*(t+1)/threads
		part(o[0][lo:hi], o[1][lo:hi], o[2][lo:hi])
	}

	return kern, nil
}
