package cpu

import (
	"math/rand/v2"
	"unsafe"

	"aicplan/cudaops/worker"
	"aicplan/sink/base/proc"
)

// arena is memory shared by all cases. It grows as needed, is filled with seeded random normals, and is
// never freed, so that allocation is not part of a measurement.
type arena[T float32 | float64] struct {
	seed uint64
	mem  []T
	rng  *rand.Rand
}

// get returns non-overlapping slices of the given lengths. It returns an error if there is not enough
// memory.
func (a *arena[T]) get(lengths ...int) ([][]T, error) {
	total := 0
	for _, n := range lengths {
		total += n
	}

	if more := total - len(a.mem); more > 0 {
		bytes := int64(more) * int64(unsafe.Sizeof(a.mem[0]))
		if free, err := proc.MemAvailable(); err == nil && bytes > free/10*9 {
			return nil, worker.Failed(worker.ClassResourceIssue,
				"the operands need %d MiB more and %d MiB of memory are available", bytes>>20, free>>20)
		}

		if a.rng == nil {
			a.rng = rand.New(rand.NewPCG(a.seed, 1))
		}

		grown := make([]T, total)
		for i := copy(grown, a.mem); i < total; i++ {
			grown[i] = T(a.rng.NormFloat64())
		}

		a.mem = grown
	}

	out := make([][]T, len(lengths))
	at := 0
	for i, n := range lengths {
		out[i] = a.mem[at : at+n : at+n]
		at += n
	}

	return out, nil
}
