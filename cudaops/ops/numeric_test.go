package ops

import (
	"math"
	"testing"

	"aicplan/cudaops/cublaslt"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		typ  cublaslt.Type
		b    []byte
		want float64
	}{
		{cublaslt.BF16, []byte{0x80, 0x3F}, 1},
		{cublaslt.BF16, []byte{0x40, 0xC0}, -3},
		{cublaslt.F16, []byte{0x00, 0x3C}, 1},
		{cublaslt.F16, []byte{0xFF, 0x7B}, 65504},
		{cublaslt.F16, []byte{0x01, 0x00}, math.Ldexp(1, -24)},
		{cublaslt.E4M3, []byte{0x38}, 1},
		{cublaslt.E4M3, []byte{0x7E}, 448},
		{cublaslt.E4M3, []byte{0x01}, math.Ldexp(1, -9)},
		{cublaslt.E4M3, []byte{0x88}, -math.Ldexp(1, -6)},
		{cublaslt.I8, []byte{0x80}, -128},
		{cublaslt.I32, []byte{0xFE, 0xFF, 0xFF, 0xFF}, -2},
		{cublaslt.F32, []byte{0, 0, 0x20, 0x41}, 10},
	} {
		if got := decode(c.typ, c.b); len(got) != 1 || got[0] != c.want {
			t.Errorf("%v % x is %v, want %v", c.typ, c.b, got, c.want)
		}
	}
	if !math.IsNaN(decode(cublaslt.E4M3, []byte{0x7F})[0]) {
		t.Error("e4m3 0x7F is not a number")
	}
}

func TestDeviation(t *testing.T) {
	if d := deviationOf([]float64{3, 4}, []float64{3, 4}, 1e-3); d.Relative != 0 || !d.OK() {
		t.Errorf("equal values deviate: %+v", d)
	}
	if d := deviationOf([]float64{3, 5}, []float64{3, 4}, 1e-3); !(math.Abs(d.Relative-0.2) <= 1e-12) || d.OK() {
		t.Errorf("one of five off: %+v, want 0.2", d)
	}
	if d := deviationOf([]float64{math.NaN(), 4}, []float64{3, 4}, 1); d.OK() {
		t.Errorf("an unwritten output passes: %+v", d)
	}
	if d := deviationOf(nil, nil, 1); d.OK() {
		t.Errorf("nothing compared passes: %+v", d)
	}
}
