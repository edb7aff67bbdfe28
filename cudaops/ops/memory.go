package ops

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"aicplan/cudaops/cuda"
)

// Memory is a memory-bound kernel on float32 arrays of Size bytes: copy (c = a), triad
// (c = a + s b) or reduce (sum of a).
type Memory struct {
	Kernel string `param:"kernel" words:"copy triad reduce"`
	Size   int64  `param:"size_bytes"`
}

const (
	triadScalar   = 0.5
	memoryThreads = 256
	memoryWord    = 16        // bytes per access of a thread
	reduceCheck   = 256 << 20 // maximum size of a verified reduction, in bytes
)

// prepare prepares a memory kernel.
func (m Memory) prepare(d *Device) (*Case, error) {
	if m.Size < memoryWord || m.Size%memoryWord != 0 {
		return nil, unsupported(fmt.Sprintf("size_bytes %d", m.Size),
			"arrays are moved in words of %d bytes: choose a multiple", memoryWord)
	}

	pool, err := d.Arena.Operands(BFloat16)
	if err != nil {
		return nil, err
	}

	c := &Case{
		Label:   fmt.Sprintf("memory %s size=%d", m.Kernel, m.Size),
		Columns: map[string]any{"kernel_source": "aicplan_" + m.Kernel},
	}

	inputs := 1
	elements := float64(m.Size) / 4
	switch m.Kernel {
	case "copy":
		c.Bytes = 2 * float64(m.Size)
	case "triad":
		inputs, c.Bytes, c.Flops = 2, 3*float64(m.Size), 2*elements
	case "reduce":
		c.Bytes, c.Flops = float64(m.Size), elements
	}

	rotating := float64(int64(inputs) * m.Size)
	d.rotate(c, rotating)
	c.Columns["cache"] = d.cacheState(c.Sets, rotating, pool)
	in, outputs := pool.cursor(c.Label), d.Arena.Out.cursor(c.Label)
	sources := make([][2]cuda.Ptr, c.Sets)
	for i := range sources {
		for k := range inputs {
			sources[i][k] = in.take("an array", m.Size)
		}
	}

	out := outputs.take("the output", m.Size)
	if err := cmp.Or(in.err, outputs.err); err != nil {
		return nil, err
	}

	words := uint64(m.Size / memoryWord)
	blocks := int(min((words+memoryThreads-1)/memoryThreads, uint64(d.Info.SMs*8)))
	launch := func(f cuda.Function, s cuda.Stream, args ...any) error {
		return d.Lib.Driver.Launch(cuda.Launch{Func: f, Grid: [3]int{blocks, 1, 1}, Block: [3]int{memoryThreads, 1,
			1}, Args: args}, s)
	}

	c.Enqueue = func(i int, s cuda.Stream) error {
		switch m.Kernel {
		case "copy":
			return launch(d.core.copy, s, out, sources[i][0], words)
		case "triad":
			return launch(d.core.triad, s, out, sources[i][0], sources[i][1], float32(triadScalar), words)
		}

		return launch(d.core.reduce, s, out, sources[i][0], words)
	}

	if m.Kernel == "reduce" && m.Size > reduceCheck {
		return c, nil // the sum on the host would take too long
	}

	bytes := m.Size
	compare := func(s *samples) Deviation { return s.stream(m, out, sources[0]) }
	if m.Kernel == "reduce" {
		bytes = int64(blocks) * 4
		compare = func(s *samples) Deviation { return s.reduce(out, blocks, sources[0][0], m.Size) }
	}
	d.verify(c, out, bytes, compare)
	return c, nil
}

// stream compares samples of copy and triad, including the first and the last element.
func (s *samples) stream(m Memory, out cuda.Ptr, src [2]cuda.Ptr) Deviation {
	n, tol := m.Size/4, 0.0
	for at := range s.count {
		i := s.rng.Int64N(n)
		switch at {
		case 0:
			i = 0
		case 1:
			i = n - 1
		}

		want := s.read(cuda.F32, src[0], i, 1)
		if m.Kernel == "triad" {
			tol = 1e-6
			want[0] += triadScalar * s.read(cuda.F32, src[1], i, 1)[0]
		}
		s.add(s.read(cuda.F32, out, i, 1), want)
	}
	return deviationOf(s.got, s.want, tol)
}

// reduce compares the sum of the partial sums with a sum in float64, relative to the norm of
// the terms, because sums of normals nearly cancel.
func (s *samples) reduce(out cuda.Ptr, blocks int, src cuda.Ptr, size int64) Deviation {
	got, terms := floats.Sum(s.read(cuda.F32, out, 0, int64(blocks))), s.read(cuda.F32, src, 0, size/4)
	dev := Deviation{Samples: blocks, Tolerance: 1e-4}
	dev.Relative = math.Abs(got-floats.Sum(terms)) / floats.Norm(terms, 2)
	dev.Largest = dev.Relative
	return dev
}
