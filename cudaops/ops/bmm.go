package ops

import (
	"fmt"
	"math"

	"aicplan/cudaops/cuda"
)

// MLABMM is one of the two batched products that absorb the up-projections of multi-head
// latent attention during generation. For each head, it maps queries of width 128 to the
// latent width 512 (pre), or latent outputs of width 512 to values of width 128 (post). The
// memory layout is tokens, heads, width.
type MLABMM struct {
	Type   string `param:"bmm_dtype" words:"bfloat16 float16 fp8"`
	Tokens int64  `param:"num_tokens"`
	Heads  int64  `param:"num_heads"`
	Post   bool
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
func (b MLABMM) problem() cuda.MatmulProblem {
	n, k := int64(mlaLatent), int64(mlaHead)
	if b.Post {
		n, k = k, n
	}

	types := formats[b.Type]
	return cuda.MatmulProblem{
		M: n, N: b.Tokens, K: k, A: types.in, B: types.in, D: types.out,
		LDA: k, LDB: b.Heads * k, LDD: b.Heads * n,
		Batch: int(b.Heads), StrideA: n * k, StrideB: k, StrideD: n,
		Scaled: b.Type == "fp8", FastAccumulate: b.Type == "fp8",
	}
}

// prepare prepares a product.
func (b MLABMM) prepare(d *Device) (*Case, error) {
	label := fmt.Sprintf("%s %s tokens=%d heads=%d", b.name(), b.Type, b.Tokens, b.Heads)
	if most := int64(math.MaxInt32 / mlaLatent); max(b.Tokens, b.Heads) > most {
		return nil, unsupported(label, "neither may be more than %d", most)
	}

	p := b.problem()
	m, n, k, h := float64(b.Tokens), float64(p.M), float64(p.K), float64(b.Heads)
	return d.matmul(Case{
		Label: label, DType: formats[b.Type].operand, Flops: 2 * h * m * n * k,
		Bytes: h * ((m*k+n*k)*float64(p.A.Size()) + m*n*float64(p.D.Size())),
	}, p)
}
