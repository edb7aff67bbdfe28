package ops

import (
	"errors"
	"fmt"
	"math"

	"aicplan/cudaops/cuda"
)

// GEMM is the product y[m,n] = x[m,k] W[n,k]^T of a linear layer.
type GEMM struct {
	M, N, K int64
	// Type is the gemm_dtype of the perf table: bfloat16, float16, fp8, int8 or fp8_block.
	Type string
}

// UnsupportedError is the error if the device or a library has no kernel for a case.
type UnsupportedError struct {
	What string
	Err  error
}

func (e *UnsupportedError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *UnsupportedError) Unwrap() error { return e.Err }

// matmulTypes maps a gemm_dtype to operand and output types.
func matmulTypes(word string) (operand DType, in, out cuda.MatrixType, err error) {
	switch word {
	case "bfloat16":
		return BFloat16, cuda.BF16, cuda.BF16, nil
	case "float16":
		return Float16, cuda.F16, cuda.F16, nil
	case "fp8", "fp8_block":
		return FP8, cuda.E4M3, cuda.BF16, nil
	case "int8":
		return Int8, cuda.I8, cuda.I32, nil
	}

	return "", 0, 0, &UnsupportedError{
		What: fmt.Sprintf("gemm_dtype %q", word),
		Err:  errors.New("the cuda runtime multiplies bfloat16, float16, fp8, fp8_block and int8"),
	}
}

// problem returns the product for cuBLASLt.
func (g GEMM) problem(ws int64) (cuda.MatmulProblem, DType, error) {
	operand, in, out, err := matmulTypes(g.Type)
	if err != nil {
		return cuda.MatmulProblem{}, "", err
	}

	p := cuda.RowMajorLinear(g.M, g.N, g.K, in, out)
	p.Workspace = ws
	switch g.Type {
	case "fp8":
		p.Scaled, p.FastAccumulate = true, true
	case "fp8_block":
		// Weights have a factor per 128 x 128 block, activations one per row and 128 columns. The
		// library requires the factors of a row of blocks to be aligned to 16 bytes, so the
		// activations are padded, as in frameworks.
		p = cuda.RowMajorLinear((g.M+3)/4*4, g.N, g.K, in, out)
		p.Workspace = ws
		p.Scaled, p.ScaleA, p.ScaleB = true, cuda.ScaleBlock128, cuda.ScaleVec128
	}

	return p, operand, nil
}

func (g GEMM) check() error {
	if g.M < 1 || g.N < 1 || g.K < 1 {
		return fmt.Errorf("gemm of m=%d n=%d k=%d: every dimension must be at least 1", g.M, g.N, g.K)
	}

	if max(g.M, g.N, g.K) > math.MaxInt32-4 {
		return &UnsupportedError{What: fmt.Sprintf("gemm of m=%d n=%d k=%d", g.M, g.N, g.K),
			Err: errors.New("dimensions are 32-bit numbers")}
	}

	return nil
}

// Work returns the bytes and operations of one product.
func (g GEMM) Work() (bytes, flops float64) {
	_, in, out, err := matmulTypes(g.Type)
	if err != nil {
		return 0, 0
	}

	m, n, k := float64(g.M), float64(g.N), float64(g.K)
	return (m*k+n*k)*float64(in.Size()) + m*n*float64(out.Size()), 2 * m * n * k
}

// lt returns cuBLASLt, or the reason why there is none.
func (d *Device) lt() (cuda.BLAS, error) {
	if d.Lib.Lt == nil {
		if d.Lib.LtErr != nil {
			return nil, d.Lib.LtErr
		}

		return nil, errors.New("cuBLASLt is not open")
	}

	return d.Lib.Lt, nil
}

// GEMM prepares a product with the first algorithm of the heuristic, as frameworks do.
func (d *Device) GEMM(g GEMM) (*Case, error) {
	if err := g.check(); err != nil {
		return nil, err
	}

	p, operand, err := g.problem(workspaceBytes)
	if err != nil {
		return nil, err
	}

	bytes, flops := g.Work()
	c := Case{
		Label: fmt.Sprintf("gemm %s m=%d n=%d k=%d", g.Type, g.M, g.N, g.K),
		Bytes: bytes, Flops: flops, DType: operand,
	}

	if p.N != g.M {
		c.Columns = map[string]any{"padded_m": p.N}
	}

	return d.matmul(c, p, operand)
}

// matmul completes the case of a product with the first algorithm of the heuristic.
func (d *Device) matmul(c Case, p cuda.MatmulProblem, operand DType) (*Case, error) {
	lt, err := d.lt()
	if err != nil {
		return nil, err
	}

	extentA, _, _ := p.Extents()
	weight := float64(extentA * p.A.Size())
	d.rotate(&c, weight)
	c.Kept = d.kept(c.Bytes - weight)
	pool, err := d.Arena.Operands(operand)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Label, err)
	}

	sets, err := d.matmulSets(p, pool, c.Sets, c.Label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Label, err)
	}

	mm, err := lt.Prepare(p)
	if err != nil {
		return nil, d.matmulError(c.Label, err)
	}

	if c.Columns == nil {
		c.Columns = map[string]any{}
	}

	c.Columns["kernel_source"] = "cublaslt"
	c.Columns["algo"] = mm.Algo().String()
	c.Columns["waves"] = float64(mm.Algo().Waves)
	c.Columns["cache"] = d.cacheState(c.Sets, weight, pool)
	c.Enqueue = func(i int, s cuda.Stream) error { return mm.Enqueue(sets[i], s) }
	c.Close = mm.Close
	c.Verify = func(samples int, seed uint64) (Deviation, error) {
		return d.verifyMatmul(p, sets[0], func() error { return mm.Enqueue(sets[0], d.stream) }, samples, seed)
	}

	return &c, nil
}

func (d *Device) matmulError(label string, err error) error {
	var e *cuda.BLASError
	if errors.As(err, &e) && e.Unsupported() {
		return &UnsupportedError{
			What: fmt.Sprintf("%s on %s (sm_%d) with cuBLASLt %d", label, d.Info.Name, d.Info.SM(), d.Lib.Lt.Version()),
			Err:  err,
		}
	}

	return fmt.Errorf("%s: %w", label, err)
}

// matmulSets allocates operand sets of a product.
func (d *Device) matmulSets(p cuda.MatmulProblem, pool *Pool, copies int, label string) ([]cuda.Operands, error) {
	return d.matmulSetsAt(p, pool.cursor(hashOf(label)), d.Arena.Out.cursor(hashOf(label)), 0, copies)
}

// matmulSetsAt allocates inputs and output from cursors. left, if not 0, is the address of the
// activations.
func (d *Device) matmulSetsAt(p cuda.MatmulProblem, in, out *cursor, left cuda.Ptr, copies int) ([]cuda.Operands,
	error) {
	var err error
	extentA, extentB, extentD := p.Extents()
	sizeA, sizeB, sizeD := extentA*p.A.Size(), extentB*p.B.Size(), extentD*p.D.Size()
	var ones *Pool
	if p.Scaled {
		if ones, err = d.Arena.Ones(); err != nil {
			return nil, err
		}

		need := 4 * ((p.K+127)/128 + 4) * max(p.N, (p.M+127)/128)
		if p.ScaleB == cuda.ScaleTensor && p.ScaleA == cuda.ScaleTensor {
			need = 4
		}

		if need > ones.bytes {
			return nil, &TooLargeError{What: "its scale factors", Bytes: need, Pool: ones.bytes}
		}
	}

	sets := make([]cuda.Operands, copies)
	for i := range sets {
		o := &sets[i]
		if i > 0 {
			*o = sets[0]
		}

		if o.A, err = in.take("the right operand", sizeA); err != nil {
			return nil, err
		}

		if i > 0 {
			continue
		}

		if o.B = left; left == 0 {
			if o.B, err = in.take("the left operand", sizeB); err != nil {
				return nil, err
			}
		}

		if o.D, err = out.take("the output", sizeD); err != nil {
			return nil, err
		}

		o.Workspace = d.Arena.Workspace
		if ones != nil {
			o.ScaleA, o.ScaleB = ones.base, ones.base
		}
	}

	return sets, nil
}
