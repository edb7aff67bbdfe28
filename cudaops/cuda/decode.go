package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Decode converts the bytes of elements to numbers.
func (t MatrixType) Decode(b []byte) []float64 {
	size := int(t.Size())
	out := make([]float64, len(b)/size)
	for i := range out {
		out[i] = t.Value(b[i*size:])
	}

	return out
}

// Value returns the number at the start of b.
func (t MatrixType) Value(b []byte) float64 {
	switch t {
	case F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case I32:
		return float64(int32(binary.LittleEndian.Uint32(b)))
	case BF16:
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	case F16:
		return fromFloat16(binary.LittleEndian.Uint16(b))
	case E4M3:
		return fromE4M3(b[0])
	case I8:
		return float64(int8(b[0]))
	}

	panic(fmt.Sprintf("cuda: no decoding of %v", t))
}

func fromFloat16(h uint16) float64 {
	e, m := h>>10&31, float64(h&0x3FF)
	if e == 31 {
		if m != 0 {
			return math.NaN()
		}
		return math.Copysign(math.Inf(1), float64(int16(h)))
	}

	return math.Copysign(smallFloat(int(e), m, 10, 15), float64(int16(h)))
}

func fromE4M3(b byte) float64 {
	if b&0x7F == 0x7F {
		return math.NaN()
	}
	return math.Copysign(smallFloat(int(b>>3&15), float64(b&7), 3, 7), float64(int8(b)))
}

// smallFloat returns the magnitude of a number with an exponent and that many bits of mantissa. Numbers with
// the exponent 0 are subnormal.
func smallFloat(exponent int, mantissa float64, bits, bias int) float64 {
	if exponent == 0 {
		exponent = 1
	} else {
		mantissa += float64(int(1) << bits)
	}
	return mantissa * math.Float64frombits(uint64(1023+exponent-bias-bits)<<52)
}
