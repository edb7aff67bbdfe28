package ops

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"aicplan/cudaops/cuda"
)

// Elementwise is a kernel between the products of a transformer layer on rows of Hidden
// elements: rmsnorm, silu_and_mul (input rows of 2 Hidden elements), quantize_fp8 (one scale)
// and quantize_fp8_block (a scale per row and 128 columns).
type Elementwise struct {
	Kernel string `param:"kernel" words:"rmsnorm silu_and_mul quantize_fp8 quantize_fp8_block"`
	Type   string `param:"dtype" words:"bfloat16 float16"`
	Tokens int64  `param:"num_tokens"`
	Hidden int64  `param:"hidden_size"`
}

// The elementwise kernels.
const (
	RMSNorm       = "rmsnorm"
	SiluAndMul    = "silu_and_mul"
	QuantizeFP8   = "quantize_fp8"
	QuantizeBlock = "quantize_fp8_block"
)

// ElementwiseKernels lists the kernels of the op.
var ElementwiseKernels = []string{RMSNorm, SiluAndMul, QuantizeFP8, QuantizeBlock}

const (
	rmsEpsilon   = 1e-6
	quantInverse = 64 // maps the magnitude 7 to 448
	fp8SM        = 89 // first compute capability with e4m3
	groupSize    = 128
)

func (e Elementwise) check(sm int) error {
	what := fmt.Sprintf("%s of %d x %d", e.Kernel, e.Tokens, e.Hidden)
	multiple := int64(8)
	if e.Kernel == QuantizeBlock {
		multiple = groupSize
	}

	switch {
	case e.quantizes() && sm < fp8SM:
		return unsupported(e.Kernel, "sm_%d has no fp8; sm_%d is the first that has", sm, fp8SM)
	case e.Hidden%multiple != 0:
		return unsupported(what, "rows must have a multiple of %d elements", multiple)
	case max(e.Tokens, e.Hidden) > math.MaxInt32:
		return unsupported(what, "dimensions are 32-bit numbers")
	}

	return nil
}

func (e Elementwise) quantizes() bool { return e.Kernel == QuantizeFP8 || e.Kernel == QuantizeBlock }

// elementwiseFunction returns a kernel for a type.
func (d *Device) elementwiseFunction(t DType, kernel string) (cuda.Function, error) {
	number, fp8 := 1, 0
	if t == Float16 {
		number = 2
	}

	if d.Info.SM() >= fp8SM {
		fp8 = 1
	}

	return d.compile(cuda.Program{Name: "elementwise.cu", Source: elementwiseSource,
		Options: []string{fmt.Sprintf("-DDTYPE=%d", number), fmt.Sprintf("-DFP8=%d", fp8)}}, "aicplan_"+kernel)
}

// prepare prepares an elementwise kernel.
func (e Elementwise) prepare(d *Device) (*Case, error) {
	if err := e.check(d.Info.SM()); err != nil {
		return nil, err
	}

	dtype := DType(e.Type)
	f, err := d.elementwiseFunction(dtype, e.Kernel)
	if err != nil {
		return nil, err
	}

	pool, err := d.Arena.Operands(dtype)
	if err != nil {
		return nil, err
	}

	n := e.Tokens * e.Hidden
	in, outBytes := 2*n, 2*n
	switch {
	case e.Kernel == SiluAndMul:
		in = 4 * n
	case e.quantizes():
		outBytes = n
	}

	c := &Case{
		Label:   fmt.Sprintf("elementwise %s %s tokens=%d hidden=%d", e.Kernel, dtype, e.Tokens, e.Hidden),
		Columns: map[string]any{"kernel_source": "aicplan_" + e.Kernel},
		Bytes:   float64(in + outBytes),
	}

	d.rotate(c, float64(in))
	c.Columns["cache"] = d.cacheState(c.Sets, float64(in), pool)
	x := elementwiseBuffers{in: make([]cuda.Ptr, c.Sets)}
	cur, out := pool.cursor(c.Label), d.Arena.Out.cursor(c.Label)
	for i := range x.in {
		x.in[i] = cur.take("the input", in)
	}

	x.weight = cur.take("the weight", 2*e.Hidden)
	x.out = out.take("the output", outBytes)
	switch e.Kernel {
	case RMSNorm:
		c.Bytes += float64(2 * e.Hidden)
	case QuantizeBlock:
		scales := 4 * e.Tokens * (e.Hidden / groupSize)
		c.Bytes += float64(scales)
		x.scales = out.take("the scales", scales)
	}

	if err := cmp.Or(cur.err, out.err); err != nil {
		return nil, err
	}

	c.Enqueue = func(i int, s cuda.Stream) error { return d.Lib.Driver.Launch(e.launch(d, f, x, i), s) }
	d.verify(c, x.out, outBytes, func(s *samples) Deviation { return s.elementwise(e, dtype, x) })
	return c, nil
}

// elementwiseBuffers are the operands of a case.
type elementwiseBuffers struct {
	in                  []cuda.Ptr
	weight, out, scales cuda.Ptr
}

func (e Elementwise) launch(d *Device, f cuda.Function, x elementwiseBuffers, i int) cuda.Launch {
	eights := e.Hidden / 8
	total := uint64(e.Tokens * eights)
	k := cuda.Launch{Func: f, Block: [3]int{256, 1, 1}}
	k.Grid = [3]int{int(min((total+255)/256, uint64(d.Info.SMs*8))), 1, 1}
	switch e.Kernel {
	case RMSNorm:
		k.Grid[0] = int(e.Tokens)
		k.Block[0] = int(min(max((eights+31)/32*32, 32), 1024))
		k.Args = []any{x.out, x.in[i], x.weight, int32(eights), float32(rmsEpsilon)}
	case SiluAndMul:
		k.Args = []any{x.out, x.in[i], uint64(e.Tokens), int32(eights)}
	case QuantizeFP8:
		k.Args = []any{x.out, x.in[i], total, float32(quantInverse)}
	case QuantizeBlock:
		k.Args = []any{x.out, x.scales, x.in[i], uint64(e.Tokens), int32(eights)}
	}

	return k
}

// elementwise recomputes sampled rows in float64.
func (s *samples) elementwise(e Elementwise, t DType, x elementwiseBuffers) Deviation {
	typ, tol := cuda.BF16, 4e-3
	if t == Float16 {
		typ, tol = cuda.F16, 1e-3
	}

	outType := typ
	if e.quantizes() {
		outType, tol = cuda.E4M3, 4e-2 // half a step of three mantissa bits
	}

	h, width := e.Hidden, e.Hidden
	if e.Kernel == SiluAndMul {
		width = 2 * h
	}

	var weight []float64
	if e.Kernel == RMSNorm {
		weight = s.read(typ, x.weight, 0, h)
	}

	for range min(int64(s.count), e.Tokens) {
		row := s.rng.Int64N(e.Tokens)
		in, out := s.read(typ, x.in[0], row*width, width), s.read(outType, x.out, row*h, h)
		if e.Kernel == QuantizeBlock {
			for k := range h {
				if k%groupSize == 0 {
					weight = s.read(cuda.F32, x.scales, k/groupSize*e.Tokens+row, 1)
				}
				out[k] *= weight[0]
			}
		}
		s.add(out, e.expected(in, weight))
	}

	return deviationOf(s.got, s.want, tol)
}

// expected returns the expected output row in float64.
func (e Elementwise) expected(in, weight []float64) []float64 {
	h := int(e.Hidden)
	out := make([]float64, h)
	switch e.Kernel {
	case RMSNorm:
		r := 1 / math.Sqrt(floats.Dot(in, in)/float64(h)+rmsEpsilon)
		for i := range out {
			out[i] = in[i] * r * weight[i]
		}
	case SiluAndMul:
		for i := range out {
			out[i] = in[i] / (1 + math.Exp(-in[i])) * in[h+i]
		}
	case QuantizeFP8:
		for i := range out {
			out[i] = math.Max(-448, math.Min(448, in[i]*quantInverse))
		}
	default:
		copy(out, in)
	}

	return out
}
