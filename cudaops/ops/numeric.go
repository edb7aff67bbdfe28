package ops

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"aicplan/cudaops/cuda"
)

// Deviation is the difference between sampled outputs of a kernel and a reference computed in
// float64 from the same operands.
type Deviation struct {
	Samples int `json:"samples"`
	// Relative is the norm of the differences divided by the norm of the reference.
	Relative float64 `json:"relative_error"`
	// Largest is the largest difference divided by the root mean square of the reference.
	Largest float64 `json:"largest_error"`
	// Tolerance is the maximum of Relative that the arithmetic allows.
	Tolerance float64 `json:"tolerance"`
}

// OK reports whether the deviation is within its tolerance. NaN is not.
func (d Deviation) OK() bool { return d.Samples > 0 && d.Relative <= d.Tolerance }

func deviationOf(got, want []float64, tolerance float64) Deviation {
	d := Deviation{Samples: len(got), Tolerance: tolerance}
	var diff, norm float64
	for i := range got {
		e := got[i] - want[i]
		diff += e * e
		norm += want[i] * want[i]
		if a := math.Abs(e); a > d.Largest || math.IsNaN(a) {
			d.Largest = a
		}
	}

	if norm > 0 {
		d.Relative = math.Sqrt(diff / norm)
		d.Largest /= math.Sqrt(norm / float64(len(got)))
	} else {
		d.Relative = math.Sqrt(diff)
	}

	return d
}

// tolerance returns the tolerance of a product: half a unit in the last place of random sums, with
// a margin for the order of addition.
func tolerance(p cuda.MatmulProblem) float64 {
	switch p.D {
	case cuda.I32:
		return 0
	case cuda.F16:
		return 1e-3
	}

	if p.FastAccumulate {
		return 1e-2 // fp8 fast accumulation keeps about 14 bits
	}

	return 4e-3
}

// samples reads sampled outputs of a case and recomputes them. It keeps the first error.
type samples struct {
	dev       *Device
	count     int
	rng       *rand.Rand
	got, want []float64
	err       error
}

// read copies n elements of an array to the host, beginning with element first. They are zero after an error.
func (s *samples) read(t cuda.MatrixType, array cuda.Ptr, first, n int64) []float64 {
	b := make([]byte, n*t.Size())
	if s.err == nil {
		s.err = s.dev.Lib.Driver.CopyDtoH(b, array+cuda.Ptr(first*t.Size()))
	}
	return t.Decode(b)
}

// add adds outputs with their references.
func (s *samples) add(got, want []float64) {
	s.got, s.want = append(s.got, got...), append(s.want, want...)
}

// matmul compares sampled elements of a product with sums in float64.
func (s *samples) matmul(p cuda.MatmulProblem, o cuda.Operands) Deviation {
	for range s.count {
		b, i, j := s.rng.Int64N(int64(max(p.Batch, 1))), s.rng.Int64N(p.M), s.rng.Int64N(p.N)
		x := s.read(p.A, o.A, b*p.StrideA+i*p.LDA, p.K)
		y := s.read(p.B, o.B, b*p.StrideB+j*p.LDB, p.K)
		s.add(s.read(p.D, o.D, b*p.StrideD+i+j*p.LDD, 1), []float64{floats.Dot(x, y)})
	}
	return deviationOf(s.got, s.want, tolerance(p))
}

// verify sets Verify of a case, which fills the output with NaN, executes once and compares.
func (d *Device) verify(c *Case, out cuda.Ptr, bytes int64, compare func(*samples) Deviation) {
	c.Verify = func(count int, seed uint64) (Deviation, error) {
		err := d.Lib.Driver.Memset8(out, 0xFF, bytes, d.stream)
		if err == nil {
			err = c.Enqueue(0, d.stream)
		}
		if err == nil {
			err = d.Lib.Driver.SyncStream(d.stream)
		}
		if err != nil {
			return Deviation{}, err
		}

		s := &samples{dev: d, count: count, rng: rand.New(rand.NewPCG(seed, 7))}
		dev := compare(s)
		return dev, s.err
	}
}
