package ops

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"aicplan/cudaops/cuda"
)

// GEMM is the product y[m,n] = x[m,k] W[n,k]^T of a linear layer.
type GEMM struct {
	Type string `param:"gemm_dtype" words:"bfloat16 float16 fp8 fp8_block int8"`
	M    int64  `param:"m"`
	N    int64  `param:"n"`
	K    int64  `param:"k"`
}

// format is the types of a product: of operands and output.
type format struct {
	operand DType
	in, out cuda.MatrixType
}

// formats are those of gemm_dtype and bmm_dtype.
var formats = map[string]format{
	"bfloat16":  {BFloat16, cuda.BF16, cuda.BF16},
	"float16":   {Float16, cuda.F16, cuda.F16},
	"fp8":       {FP8, cuda.E4M3, cuda.BF16},
	"fp8_block": {FP8, cuda.E4M3, cuda.BF16},
	"int8":      {Int8, cuda.I8, cuda.I32},
}

// problem returns the product for cuBLASLt.
func (g GEMM) problem() cuda.MatmulProblem {
	types := formats[g.Type]
	p := cuda.RowMajorLinear(g.M, g.N, g.K, types.in, types.out)
	switch g.Type {
	case "fp8":
		p.Scaled, p.FastAccumulate = true, true
	case "fp8_block":
		// Weights have a factor per 128 x 128 block, activations one per row and 128 columns. The
		// library requires the factors of a row of blocks to be aligned to 16 bytes, so the
		// activations are padded, as in frameworks.
		p = cuda.RowMajorLinear((g.M+3)/4*4, g.N, g.K, types.in, types.out)
		p.Scaled, p.ScaleA, p.ScaleB = true, cuda.ScaleBlock128, cuda.ScaleVec128
	}

	return p
}

// describe checks the dimensions, and returns the product and its case.
func (g GEMM) describe() (cuda.MatmulProblem, Case, error) {
	label := fmt.Sprintf("gemm %s m=%d n=%d k=%d", g.Type, g.M, g.N, g.K)
	if max(g.M, g.N, g.K) > math.MaxInt32-4 {
		return cuda.MatmulProblem{}, Case{}, unsupported(label, "dimensions are 32-bit numbers")
	}

	types := formats[g.Type]
	m, n, k := float64(g.M), float64(g.N), float64(g.K)
	return g.problem(), Case{
		Label: label, DType: types.operand, Flops: 2 * m * n * k,
		Bytes: (m*k+n*k)*float64(types.in.Size()) + m*n*float64(types.out.Size()),
	}, nil
}

// lt returns cuBLASLt, or the reason why there is none.
func (d *Device) lt() (cuda.BLAS, error) {
	if d.Lib.Lt == nil {
		return nil, cmp.Or(d.Lib.LtErr, errors.New("cuBLASLt is not open"))
	}
	return d.Lib.Lt, nil
}

// prepare prepares a product with the first algorithm of the heuristic, as frameworks do.
func (g GEMM) prepare(d *Device) (*Case, error) {
	p, c, err := g.describe()
	if err != nil {
		return nil, err
	}

	if p.N != g.M {
		c.Columns = map[string]any{"padded_m": p.N}
	}

	return d.matmul(c, p)
}

// matmul completes the case of a product with the first algorithm of the heuristic.
func (d *Device) matmul(c Case, p cuda.MatmulProblem) (*Case, error) {
	lt, err := d.lt()
	if err != nil {
		return nil, err
	}

	extentA, _, extentD := p.Extents()
	weight := float64(extentA * p.A.Size())
	d.rotate(&c, weight)
	c.Kept = d.kept(c.Bytes - weight)
	pool, err := d.Arena.Operands(c.DType)
	if err != nil {
		return nil, err
	}

	sets, err := d.matmulSets(p, pool.cursor(c.Label), d.Arena.Out.cursor(c.Label), 0, c.Sets)
	if err != nil {
		return nil, err
	}

	mm, err := lt.Prepare(p)
	if err != nil {
		return nil, d.matmulError(err)
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
	d.verify(&c, sets[0].D, extentD*p.D.Size(), func(s *samples) Deviation { return s.matmul(p, sets[0]) })
	return &c, nil
}

// matmulError describes the device if cuBLASLt has no kernel for a product.
func (d *Device) matmulError(err error) error {
	if !cuda.Unsupported(err) {
		return err
	}
	return unsupported(fmt.Sprintf("a product on %s (sm_%d) with cuBLASLt %d", d.Info.Name, d.Info.SM(),
		d.Lib.Lt.Version()), "%v", err)
}

// matmulSets allocates the operand sets of a product: inputs and output from cursors. left, if not 0, is the
// address of the activations.
func (d *Device) matmulSets(p cuda.MatmulProblem, in, out *cursor, left cuda.Ptr, copies int) ([]cuda.Operands, error) {
	extentA, extentB, extentD := p.Extents()
	sizeA, sizeB, sizeD := extentA*p.A.Size(), extentB*p.B.Size(), extentD*p.D.Size()
	first := cuda.Operands{A: in.take("the right operand", sizeA), B: left, Workspace: d.Arena.Workspace}
	if p.Scaled {
		ones, err := d.Arena.Ones()
		if err != nil {
			return nil, err
		}

		need := 4 * ((p.K+127)/128 + 4) * max(p.N, (p.M+127)/128)
		if p.ScaleB == cuda.ScaleTensor && p.ScaleA == cuda.ScaleTensor {
			need = 4
		}

		if need > ones.bytes {
			return nil, tooLarge("its scale factors", need, ones.bytes)
		}

		first.ScaleA, first.ScaleB = ones.base, ones.base
	}

	if left == 0 {
		first.B = in.take("the left operand", sizeB)
	}

	first.D = out.take("the output", sizeD)
	sets := []cuda.Operands{first}
	for len(sets) < copies {
		next := first
		next.A = in.take("the right operand", sizeA)
		sets = append(sets, next)
	}

	return sets, cmp.Or(in.err, out.err)
}
