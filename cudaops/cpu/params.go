package cpu

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"aicplan/cudaops/worker"
)

// params parses a case's parameters and keeps the first error.
type params struct {
	values map[string]any
	err    error
}

func parseParams(raw json.RawMessage) *params {
	p := &params{}
	var err error
	if p.values, err = worker.DecodeParams(raw); err != nil {
		p.err = failure(worker.ClassCollectorBug, "the case's parameters are no JSON object: %v", err)
	}
	return p
}

// size returns a parameter that must be a whole number of at least 1.
func (p *params) size(name string) int {
	v, ok := p.values[name]
	if !ok {
		p.fail("parameter %q is missing", name)
		return 1
	}
	return p.integer(name, v)
}

// sizeOr is like size, with a default for a missing parameter.
func (p *params) sizeOr(name string, def int) int {
	v, ok := p.values[name]
	if !ok {
		return def
	}
	return p.integer(name, v)
}

func (p *params) integer(name string, v any) int {
	n, ok := v.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil || i < 1 || i > 1<<40 {
		p.fail("parameter %q is %v; it must be a whole number of at least 1", name, v)
		return 1
	}
	return int(i)
}

// word returns a parameter that must be one of the allowed words.
func (p *params) word(name string, allowed ...string) string {
	v, ok := p.values[name]
	if !ok {
		p.fail("parameter %q is missing", name)
		return ""
	}

	s, _ := v.(string)
	for _, a := range allowed {
		if s == a {
			return s
		}
	}

	p.failClass(worker.ClassUnsupportedConfig, "parameter %q is %v; the cpu runtime has %s", name, v,
		strings.Join(allowed, ", "))
	return ""
}

func (p *params) fail(format string, args ...any) {
	p.failClass(worker.ClassCollectorBug, format, args...)
}

func (p *params) failClass(class, format string, args ...any) {
	if p.err == nil {
		p.err = failure(class, format, args...)
	}
}

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
		var t T
		size := 8
		if _, ok := any(t).(float32); ok {
			size = 4
		}

		if free, ok := memAvailable(); ok && int64(more)*int64(size) > free/10*9 {
			return nil, failure(worker.ClassResourceIssue,
				"the operands need %d MiB more and %d MiB of memory are available",
				int64(more)*int64(size)>>20, free>>20)
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

// memAvailable returns how many bytes can be allocated without swapping. It returns false if the system
// does not report it.
func memAvailable() (int64, bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()

	for s := bufio.NewScanner(f); s.Scan(); {
		rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		return kb << 10, err == nil
	}

	return 0, false
}
