package ops

import (
	"math"
	"math/rand/v2"

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

// verifyMatmul compares sampled elements of a product with sums in float64.
func (d *Device) verifyMatmul(p cuda.MatmulProblem, o cuda.Operands, samples int, seed uint64) (Deviation, error) {
	batch := int64(max(p.Batch, 1))
	rng := rand.New(rand.NewPCG(seed, 7))
	var got, want []float64
	for range samples {
		b, i, j := rng.Int64N(batch), rng.Int64N(p.M), rng.Int64N(p.N)
		x, err := d.vector(p.A, o.A, b*p.StrideA, p.TransA, i, p.LDA, p.K)
		if err != nil {
			return Deviation{}, err
		}

		y, err := d.vector(p.B, o.B, b*p.StrideB, true, j, p.LDB, p.K)
		if err != nil {
			return Deviation{}, err
		}

		sum := 0.0
		for k := range x {
			sum += x[k] * y[k]
		}

		out, err := d.read(p.D, o.D, b*p.StrideD+i+j*p.LDD, 1)
		if err != nil {
			return Deviation{}, err
		}

		got, want = append(got, out[0]), append(want, sum)
	}

	return deviationOf(got, want, tolerance(p)), nil
}

// vector reads the k elements of row or column i of a column-major matrix. They are contiguous if
// kFirst is true.
func (d *Device) vector(t cuda.MatrixType, base cuda.Ptr, first int64, kFirst bool, i, ld, k int64) ([]float64, error) {
	if kFirst {
		return d.read(t, base, first+i*ld, k)
	}

	// The stride of the elements is ld. Read the whole range.
	all, err := d.read(t, base, first+i, (k-1)*ld+1)
	if err != nil {
		return nil, err
	}

	out := make([]float64, k)
	for n := range out {
		out[n] = all[int64(n)*ld]
	}

	return out, nil
}

// read copies n elements of an array to the host, beginning with element first.
func (d *Device) read(t cuda.MatrixType, array cuda.Ptr, first, n int64) ([]float64, error) {
	b := make([]byte, n*t.Size())
	if err := d.Lib.Driver.CopyDtoH(b, array+cuda.Ptr(first*t.Size())); err != nil {
		return nil, err
	}
	return t.Decode(b), nil
}

// verify sets Verify of a case, which fills the output with NaN, executes once and compares.
func (d *Device) verify(c *Case, out cuda.Ptr, bytes int64, compare func(samples int, seed uint64) (Deviation, error)) {
	c.Verify = func(samples int, seed uint64) (Deviation, error) {
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
		return compare(samples, seed)
	}
}
