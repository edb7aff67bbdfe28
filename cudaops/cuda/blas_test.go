package cuda

import (
	"testing"

	"aicplan/cudaops/dl"
)

// TestLoadBLAS opens the real library if it is installed. It needs no GPU.
func TestLoadBLAS(t *testing.T) {
	l, err := LoadBLAS(0)
	if dl.IsNotFound(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v := l.Version(); v < 120000 {
		t.Errorf("version %d of %s", v, l.Path())
	}
}

func TestRowMajorLinear(t *testing.T) {
	// y[2,3] = x[2,5] W[3,5]^T: the library computes y^T of 3 x 2.
	p := RowMajorLinear(2, 3, 5, BF16, BF16)
	if p.M != 3 || p.N != 2 || p.K != 5 || p.LDA != 5 || p.LDB != 5 || p.LDD != 3 {
		t.Errorf("wrong problem: %+v", p)
	}
}

// TestLinearAgainstRowMajor evaluates the column-major problem by hand and compares it with the row-major
// product.
func TestLinearAgainstRowMajor(t *testing.T) {
	const m, n, k = 3, 4, 5
	x, w := make([]float64, m*k), make([]float64, n*k)
	for i := range x {
		x[i] = float64(i%7) - 3
	}
	for i := range w {
		w[i] = float64(i%5) - 2
	}
	p := RowMajorLinear(m, n, k, F32, F32)
	y := make([]float64, m*n)
	for j := int64(0); j < p.N; j++ {
		for i := int64(0); i < p.M; i++ {
			for kk := int64(0); kk < p.K; kk++ {
				a := w[kk+i*p.LDA] // transposed: stored K x M
				b := x[kk+j*p.LDB]
				y[i+j*p.LDD] += a * b
			}
		}
	}
	for i := 0; i < m; i++ {
		for j := 0; j < n; j++ {
			var want float64
			for kk := 0; kk < k; kk++ {
				want += x[i*k+kk] * w[j*k+kk]
			}
			if y[i*n+j] != want {
				t.Errorf("y[%d,%d] = %v, want %v", i, j, y[i*n+j], want)
			}
		}
	}
}

func TestExtents(t *testing.T) {
	for _, c := range []struct {
		p       MatmulProblem
		a, b, d int64
	}{
		{RowMajorLinear(2, 3, 5, BF16, BF16), 15, 10, 6},
		// Two heads interleaved per token: x[3 tokens][2 heads][5], y[3][2][4].
		{MatmulProblem{M: 4, N: 3, K: 5, LDA: 5, LDB: 10, LDD: 8, Batch: 2, StrideA: 20, StrideB: 5, StrideD: 4}, 40, 30, 24},
	} {
		if a, b, d := c.p.Extents(); a != c.a || b != c.b || d != c.d {
			t.Errorf("%v extends over %d %d %d, want %d %d %d", c.p, a, b, d, c.a, c.b, c.d)
		}
	}
}
