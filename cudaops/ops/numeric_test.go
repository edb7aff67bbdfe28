package ops

import (
	"math"
	"testing"

	"aicplan/cudaops/cuda"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		typ  cuda.MatrixType
		b    []byte
		want float64
	}{
		{cuda.BF16, []byte{0x80, 0x3F}, 1},
		{cuda.BF16, []byte{0x40, 0xC0}, -3},
		{cuda.F16, []byte{0x00, 0x3C}, 1},
		{cuda.F16, []byte{0xFF, 0x7B}, 65504},
		{cuda.F16, []byte{0x01, 0x00}, math.Ldexp(1, -24)},
		{cuda.E4M3, []byte{0x38}, 1},
		{cuda.E4M3, []byte{0x7E}, 448},
		{cuda.E4M3, []byte{0x01}, math.Ldexp(1, -9)},
		{cuda.E4M3, []byte{0x88}, -math.Ldexp(1, -6)},
		{cuda.I8, []byte{0x80}, -128},
		{cuda.I32, []byte{0xFE, 0xFF, 0xFF, 0xFF}, -2},
		{cuda.F32, []byte{0, 0, 0x20, 0x41}, 10},
	} {
		if got := c.typ.Decode(c.b); len(got) != 1 || got[0] != c.want {
			t.Errorf("%v % x is %v, want %v", c.typ, c.b, got, c.want)
		}
	}
	if !math.IsNaN(cuda.E4M3.Decode([]byte{0x7F})[0]) {
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
