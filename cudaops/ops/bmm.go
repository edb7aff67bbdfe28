package ops

import (
	"errors"
	"fmt"
	"math"

	"aicplan/cudaops/cuda"
)

// MLABMM is one of the two batched products that absorb the up-projections of multi-head
// latent attention during generation. For each head, it maps queries of width 128 to the
// latent width 512 (pre), or latent outputs of width 512 to values of width 128 (post). The
// memory layout is tokens, heads, width.
type MLABMM struct {
	Tokens, Heads int64
	Type          string // bfloat16 or fp8
	Post          bool
}

// Widths of the latent attention in the perf tables.
const (
	mlaHead   = 128 // without the rotary part
	mlaLatent = 512
)

func (b MLABMM) name() string {
	if b.Post {
		return "mla_gen_post"
	}

	return "mla_gen_pre"
}

// problem returns the product for cuBLASLt: x[T,H,k] W[H,n,k]^T = y[T,H,n].
func (b MLABMM) problem(ws int64) (cuda.MatmulProblem, DType, error) {
	if b.Type != "bfloat16" && b.Type != "float16" && b.Type != "fp8" {
		return cuda.MatmulProblem{}, "", &UnsupportedError{
			What: fmt.Sprintf("bmm_dtype %q", b.Type),
			Err:  errors.New("the cuda runtime has bfloat16, float16 and fp8"),
		}
	}

	operand, in, out, err := matmulTypes(b.Type)
	if err != nil {
		return cuda.MatmulProblem{}, "", err
	}

	n, k := int64(mlaLatent), int64(mlaHead)
	if b.Post {
		n, k = k, n
	}

	p := cuda.MatmulProblem{
		M: n, N: b.Tokens, K: k, TransA: true, A: in, B: in, D: out,
		LDA: k, LDB: b.Heads * k, LDD: b.Heads * n,
		Batch: int(b.Heads), StrideA: n * k, StrideB: k, StrideD: n,
		Workspace: ws,
	}

	if b.Type == "fp8" {
		p.Scaled, p.FastAccumulate = true, true
	}

	return p, operand, nil
}

// MLABMM prepares a product.
func (d *Device) MLABMM(b MLABMM) (*Case, error) {
	if b.Tokens < 1 || b.Heads < 1 {
		return nil, fmt.Errorf("%s of %d tokens and %d heads: both must be at least 1", b.name(), b.Tokens, b.Heads)
	}

	if most := int64(math.MaxInt32 / mlaLatent); max(b.Tokens, b.Heads) > most {
		return nil, &UnsupportedError{
			What: fmt.Sprintf("%s of %d tokens and %d heads", b.name(), b.Tokens, b.Heads),
			Err:  fmt.Errorf("neither may be more than %d", most),
		}
	}

	p, operand, err := b.problem(workspaceBytes)
	if err != nil {
		return nil, err
	}

	m, n, k, h := float64(b.Tokens), float64(p.M), float64(p.K), float64(b.Heads)
	c := Case{
		Label: fmt.Sprintf("%s %s tokens=%d heads=%d", b.name(), b.Type, b.Tokens, b.Heads),
		Bytes: h * ((m*k+n*k)*float64(p.A.Size()) + m*n*float64(p.D.Size())),
		Flops: 2 * h * m * n * k, DType: operand,
	}

	return d.matmul(c, p, operand)
}
