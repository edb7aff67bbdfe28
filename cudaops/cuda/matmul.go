package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"aicplan/cudaops/dl"
)

// Attribute numbers of the library's enumerations.
const (
	descTransA     = 3
	descScalePtrA  = 17
	descScalePtrB  = 18
	descFastAccum  = 25
	descScaleModeA = 31
	descScaleModeB = 32

	layoutBatchCount  = 5
	layoutBatchStride = 6

	prefWorkspace = 1

	compute32F = 68
	compute32I = 72
)

// heuristicResult mirrors cublasLtMatmulHeuristicResult_t.
type heuristicResult struct {
	algo      [8]uint64
	workspace uint64
	state     int32
	waves     float32
	reserved  [4]int32
}

type matmul struct {
	lib              *BLASLibrary
	p                MatmulProblem
	desc, la, lb, ld uintptr
	scaleA, scaleB   Ptr // current values in desc
	algo             Algo
	raw              *heuristicResult // nil lets the library choose
	scalars          scalars
	closed           bool
}

// scalars contain alpha and beta in the scale type of the problem.
type scalars struct {
	alphaF, zeroF float32
	oneI, zeroI   int32
}

// Prepare implements BLAS.
func (l *BLASLibrary) Prepare(p MatmulProblem) (Matmul, error) {
	m := &matmul{lib: l, p: p, raw: new(heuristicResult), scalars: scalars{alphaF: cmp.Or(p.Alpha, 1), oneI: 1}}
	if err := m.describe(); err != nil {
		m.destroy()
		return nil, err
	}

	var got int32
	err := l.call(l.cublasLtMatmulAlgoGetHeuristic, l.handle, m.desc, m.la, m.lb, m.ld, m.ld,
		l.pref, 1, uintptr(unsafe.Pointer(m.raw)), uintptr(unsafe.Pointer(&got)))
	offered := err == nil && got == 1 && m.raw.state == 0
	switch {
	case offered:
		m.algo = l.config(m.raw)
		return m, nil
	case p.A == I8 && (err == nil || Unsupported(err)):
		// The library supports int8 even if its heuristic returns no algorithm.
		m.raw, m.algo = nil, Algo{Default: true}
		return m, nil
	case err == nil:
		err = &BLASError{CallError{Call: "cublasLtMatmulAlgoGetHeuristic", Code: StatusNotSupported,
			Name: "CUBLAS_STATUS_NOT_SUPPORTED", Text: "no algorithm is offered"}}
	}

	m.destroy()
	return nil, fmt.Errorf("%v: %w", p, err)
}

func (m *matmul) describe() error {
	l, p := m.lib, m.p
	compute, scale := uintptr(compute32F), F32
	if p.A == I8 {
		compute, scale = compute32I, I32
	}

	if err := l.call(l.cublasLtMatmulDescCreate, uintptr(unsafe.Pointer(&m.desc)), compute,
		uintptr(scale)); err != nil {
		return err
	}

	set := func(attr uintptr, v int32) error {
		return l.call(l.cublasLtMatmulDescSetAttribute, m.desc, attr, uintptr(unsafe.Pointer(&v)), 4)
	}

	if err := set(descTransA, 1); err != nil {
		return err
	}

	if p.Scaled {
		if p.ScaleA != ScaleTensor {
			if err := set(descScaleModeA, int32(p.ScaleA)); err != nil {
				return err
			}
		}

		if p.ScaleB != ScaleTensor {
			if err := set(descScaleModeB, int32(p.ScaleB)); err != nil {
				return err
			}
		}

		// The heuristic requires scale pointers. The real addresses are set by Enqueue.
		if err := m.setScales(256, 256); err != nil {
			return err
		}
	}

	if p.FastAccumulate {
		v := int8(1)
		if err := l.call(l.cublasLtMatmulDescSetAttribute, m.desc, descFastAccum,
			uintptr(unsafe.Pointer(&v)), 1); err != nil {
			return err
		}
	}

	if err := m.layout(&m.la, p.A, p.K, p.M, p.LDA, p.StrideA); err != nil {
		return err
	}

	if err := m.layout(&m.lb, p.B, p.K, p.N, p.LDB, p.StrideB); err != nil {
		return err
	}

	return m.layout(&m.ld, p.D, p.M, p.N, p.LDD, p.StrideD)
}

func (m *matmul) layout(at *uintptr, t MatrixType, rows, cols, ld, stride int64) error {
	l := m.lib
	if err := l.call(l.cublasLtMatrixLayoutCreate, uintptr(unsafe.Pointer(at)), uintptr(t),
		uintptr(rows), uintptr(cols), uintptr(ld)); err != nil {
		return err
	}

	if m.p.Batch <= 1 {
		return nil
	}

	n := int32(m.p.Batch)
	if err := l.call(l.cublasLtMatrixLayoutSetAttribute, *at, layoutBatchCount,
		uintptr(unsafe.Pointer(&n)), 4); err != nil {
		return err
	}

	return l.call(l.cublasLtMatrixLayoutSetAttribute, *at, layoutBatchStride,
		uintptr(unsafe.Pointer(&stride)), 8)
}

func (m *matmul) setScales(a, b Ptr) error {
	if m.scaleA == a && m.scaleB == b {
		return nil
	}

	l := m.lib
	err := errors.Join(
		l.call(l.cublasLtMatmulDescSetAttribute, m.desc, descScalePtrA, uintptr(unsafe.Pointer(&a)), 8),
		l.call(l.cublasLtMatmulDescSetAttribute, m.desc, descScalePtrB, uintptr(unsafe.Pointer(&b)), 8))

	if err == nil {
		m.scaleA, m.scaleB = a, b
	}
	return err
}

func (l *BLASLibrary) config(r *heuristicResult) Algo {
	a := Algo{WorkspaceBytes: int64(r.workspace), Waves: r.waves}
	get := func(attr int, at unsafe.Pointer, size uintptr) {
		var written uint64
		// Attributes unknown to older libraries remain 0.
		dl.Call(l.cublasLtMatmulAlgoConfigGetAttribute.At, uintptr(unsafe.Pointer(&r.algo[0])), uintptr(attr),
			uintptr(at), size, uintptr(unsafe.Pointer(&written)))
	}

	for attr, at := range []*uint32{&a.ID, &a.Tile, &a.SplitK, &a.Reduction, &a.Swizzle, &a.Custom, &a.Stages} {
		get(attr, unsafe.Pointer(at), 4)
	}

	get(7, unsafe.Pointer(&a.Inner), 2)
	get(8, unsafe.Pointer(&a.Cluster), 2)
	return a
}

func (m *matmul) Algo() Algo { return m.algo }

func (m *matmul) Enqueue(o Operands, s Stream) error {
	if m.p.Scaled {
		if err := m.setScales(o.ScaleA, o.ScaleB); err != nil {
			return err
		}
	}

	alpha, beta := unsafe.Pointer(&m.scalars.alphaF), unsafe.Pointer(&m.scalars.zeroF)
	if m.p.A == I8 {
		alpha, beta = unsafe.Pointer(&m.scalars.oneI), unsafe.Pointer(&m.scalars.zeroI)
	}

	var algo uintptr
	if m.raw != nil {
		algo = uintptr(unsafe.Pointer(&m.raw.algo[0]))
	}

	l := m.lib
	// Host scalars and the algorithm are read during the call. They are part of m, which must not be
	// garbage collected before it returns.
	defer runtime.KeepAlive(m)

	return l.call(l.cublasLtMatmul, l.handle, m.desc,
		uintptr(alpha), uintptr(o.A), m.la, uintptr(o.B), m.lb, uintptr(beta),
		uintptr(o.D), m.ld, uintptr(o.D), m.ld,
		algo, uintptr(o.Workspace), uintptr(m.algo.WorkspaceBytes), uintptr(s))
}

func (m *matmul) Close() {
	if m.closed {
		return
	}
	m.closed = true
	m.destroy()
}

func (m *matmul) destroy() {
	l := m.lib
	for _, h := range []uintptr{m.la, m.lb, m.ld} {
		if h != 0 {
			dl.Call(l.cublasLtMatrixLayoutDestroy.At, h)
		}
	}

	if m.desc != 0 {
		dl.Call(l.cublasLtMatmulDescDestroy.At, m.desc)
	}
}

func (p MatmulProblem) String() string {
	s := fmt.Sprintf("%dx%dx%d %v->%v", p.M, p.N, p.K, p.A, p.D)
	if p.Batch > 1 {
		s += fmt.Sprintf(" x%d", p.Batch)
	}
	return s
}
