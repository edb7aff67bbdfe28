package ops

import (
	"fmt"
	"sync/atomic"

	"aicplan/cudaops/cuda"
)

// fakeBLAS is a fake cuda.BLAS.
type fakeBLAS struct {
	Driver *fakeDriver

	// Unsupported reports whether there is no kernel for a problem. It may be nil.
	Unsupported func(cuda.MatmulProblem) bool

	// Stumble returns the error of Prepare. It may be nil or return nil.
	Stumble func(cuda.MatmulProblem) *cuda.BLASError

	// Fault returns the device error of a product when it runs. It may be nil.
	Fault func(cuda.MatmulProblem) *cuda.DriverError

	// Eager reports whether a product fails inside a capture. It may be nil.
	Eager func(cuda.MatmulProblem) bool

	// Seen is called with the operands of each queued product. It may be nil.
	Seen func(cuda.MatmulProblem, cuda.Operands)

	// Open counts matmuls that are not closed.
	Open atomic.Int64
}

// Version implements cuda.BLAS.
func (l *fakeBLAS) Version() int { return 130100 }

// Rates of the fake device.
const (
	fakeFlops    = 700e12
	fakeBytes    = 4e12
	fakeOverhead = 2e-6
)

// matmulBytes returns the number of bytes that a product moves.
func matmulBytes(p cuda.MatmulProblem) float64 {
	return float64(max(p.Batch, 1)) * (float64(p.M*p.K*p.A.Size()) + float64(p.N*p.K*p.B.Size()) +
		float64(p.M*p.N*p.D.Size()))
}

// matmulSeconds returns the time of a product at full clock.
func matmulSeconds(p cuda.MatmulProblem) float64 {
	flops := 2 * float64(max(p.Batch, 1)) * float64(p.M) * float64(p.N) * float64(p.K)
	return fakeOverhead + max(flops/fakeFlops, matmulBytes(p)/fakeBytes)
}

// Prepare implements cuda.BLAS.
func (l *fakeBLAS) Prepare(p cuda.MatmulProblem) (cuda.Matmul, error) {
	if l.Unsupported != nil && l.Unsupported(p) {
		return nil, fmt.Errorf("%v: %w", p, &cuda.BLASError{CallError: cuda.CallError{
			Call: "cublasLtMatmulAlgoGetHeuristic", Code: cuda.StatusNotSupported}})
	}

	if l.Stumble != nil {
		if err := l.Stumble(p); err != nil {
			return nil, fmt.Errorf("%v: %w", p, err)
		}
	}

	l.Open.Add(1)
	return &fakeMatmul{lt: l, p: p}, nil
}

type fakeMatmul struct {
	lt     *fakeBLAS
	p      cuda.MatmulProblem
	closed bool
}

func (m *fakeMatmul) Algo() cuda.Algo { return cuda.Algo{ID: 66, Waves: 1} }

func (m *fakeMatmul) Enqueue(o cuda.Operands, s cuda.Stream) error {
	if m.lt.Seen != nil {
		m.lt.Seen(m.p, o)
	}

	t := matmulSeconds(m.p)
	flops := 2 * float64(max(m.p.Batch, 1)) * float64(m.p.M) * float64(m.p.N) * float64(m.p.K)
	w := fakeWork{
		Name: "matmul", Seconds: t, Watts: 60 + 540*min(1, flops/t/fakeFlops) +
			280*min(1, matmulBytes(m.p)/t/fakeBytes), Share: min(1, flops/t/fakeFlops),
		NoCapture: m.lt.Eager != nil && m.lt.Eager(m.p),
	}

	if m.lt.Fault != nil {
		w.Do = func(*fakeDriver) *cuda.DriverError { return m.lt.Fault(m.p) }
	}

	return m.lt.Driver.Enqueue(s, w)
}

func (m *fakeMatmul) Close() {
	if m.closed {
		panic("closed twice")
	}
	m.closed = true
	m.lt.Open.Add(-1)
}
