package ops

import (
	"errors"
	"fmt"
	"math"

	"aicplan/cudaops/cuda"
)

// DType is an element type, named as in perf tables.
type DType string

// Element types of operands.
const (
	Float32  DType = "float32"
	BFloat16 DType = "bfloat16"
	Float16  DType = "float16"
	FP8      DType = "fp8"
	Int8     DType = "int8"
)

// Size returns the size of an element in bytes, or 0 for an unknown type.
func (t DType) Size() int64 {
	switch t {
	case Float32:
		return 4
	case BFloat16, Float16:
		return 2
	case FP8, Int8:
		return 1
	}

	return 0
}

// fillType returns the type's number in the fill kernel and the standard deviation of its
// values. That of int8 is large, as in quantised tensors.
func (t DType) fillType() (int32, float32) {
	switch t {
	case Float32:
		return 0, 1
	case BFloat16:
		return 1, 1
	case Float16:
		return 2, 1
	case FP8:
		return 3, 1
	}

	return 4, 32
}

// Sizes within the arena.
const (
	// operandAlign is the alignment of operands, the same as in the allocators of frameworks.
	operandAlign = 512
	// scaleShare is the divisor of the arena for the scale factors of fp8 operands. One factor
	// per 128 elements of the largest operand fits.
	scaleShare = 64
)

// Arena is the memory of a worker, in one allocation. It has a pool of operands for each
// element type, a pool for outputs, scale factors and a workspace. Pools are filled with
// seeded normals on first use.
type Arena struct {
	dev       *Device
	base      cuda.Ptr
	bytes     int64
	pools     map[DType]*Pool
	Out       *Pool
	Scales    *Pool // ones, float32
	Workspace cuda.Ptr
	seed      uint64
}

// Pool is a part of the arena that contains operands.
type Pool struct {
	base   cuda.Ptr
	bytes  int64
	filled bool
	dtype  DType
}

// ArenaBytes returns the size of a worker's arena for the given free memory: less than half
// of it, so that a second worker fits on the device, and at most 40 GiB.
func ArenaBytes(free int64) int64 {
	return min(free/100*45, 40<<30) &^ (1<<20 - 1)
}

// errNoRoom is the error for a device whose memory is in use by other processes.
var errNoRoom = errors.New("too little device memory is free")

func newArena(d *Device, bytes int64) (*Arena, error) {
	const least = 256 << 20
	if bytes < least {
		return nil, fmt.Errorf("%w: the arena would have %d MiB, and needs %d MiB", errNoRoom, bytes>>20, least>>20)
	}

	base, err := d.Lib.Driver.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("arena of %.1f GiB: %w", float64(bytes)/(1<<30), err)
	}

	a := &Arena{dev: d, base: base, bytes: bytes, pools: map[DType]*Pool{}, seed: 1}
	next := base
	cut := func(n int64) *Pool {
		n &^= 1<<20 - 1
		p := &Pool{base: next, bytes: n}
		next += cuda.Ptr(n)
		return p
	}

	a.Workspace = cut(cuda.Workspace).base
	a.Scales = cut(bytes / scaleShare)
	rest := bytes - int64(next-base)
	a.Out = cut(rest / 4)
	rest = bytes - int64(next-base)
	// Two types have two bytes per element and two have one. All pools have the same number of
	// elements.
	for _, t := range []DType{BFloat16, Float16, FP8, Int8} {
		p := cut(rest / 6 * t.Size())
		p.dtype = t
		a.pools[t] = p
	}

	return a, nil
}

// SetSeed sets the seed of the data. Filled pools are filled again on their next use.
func (a *Arena) SetSeed(seed uint64) {
	if seed == a.seed {
		return
	}

	a.seed = seed
	for _, p := range a.pools {
		p.filled = false
	}
}

// Operands returns the pool of a type, filled with normals.
func (a *Arena) Operands(t DType) (*Pool, error) {
	if t == Float32 {
		// A pair of bfloat16 normals is a float of similar magnitude.
		t = BFloat16
	}

	p, ok := a.pools[t]
	if !ok {
		return nil, fmt.Errorf("no operands of type %q", t)
	}

	if !p.filled {
		if err := a.fill(p); err != nil {
			return nil, fmt.Errorf("filling %.1f GiB with %s normals: %w", float64(p.bytes)/(1<<30), t, err)
		}

		p.filled = true
	}

	return p, nil
}

func (a *Arena) fill(p *Pool) error {
	d := a.dev
	typ, scale := p.dtype.fillType()
	quads := uint64(p.bytes / (4 * p.dtype.Size()))
	d.busy.Lock()
	defer d.busy.Unlock()
	err := d.Lib.Driver.Launch(cuda.Launch{
		Func: d.core.fill, Grid: [3]int{d.Info.SMs * 16, 1, 1}, Block: [3]int{256, 1, 1},
		Args: []any{p.base, quads, uint64(0), a.seed, typ, scale},
	}, d.stream)
	if err != nil {
		return err
	}

	return d.Lib.Driver.SyncStream(d.stream)
}

// Ones returns scale factors of 1, float32.
func (a *Arena) Ones() (*Pool, error) {
	if !a.Scales.filled {
		d := a.dev
		d.busy.Lock()
		defer d.busy.Unlock()
		if err := d.Lib.Driver.Memset32(a.Scales.base, 0x3F800000, a.Scales.bytes/4, d.stream); err != nil {
			return nil, err
		}

		if err := d.Lib.Driver.SyncStream(d.stream); err != nil {
			return nil, err
		}

		a.Scales.filled = true
	}

	return a.Scales, nil
}

// cursor allocates consecutive operands of a pool. It begins at a position that depends on
// the case only, so that a case reads the same addresses independent of earlier cases.
type cursor struct {
	pool *Pool
	at   int64
	err  error // of the first operand that does not fit
}

func (p *Pool) cursor(label string) *cursor {
	c := &cursor{pool: p}
	if n := p.bytes / operandAlign; n > 0 {
		c.at = int64(hashOf(label)%uint64(n)) * operandAlign
	}

	return c
}

// take returns the address of the next bytes, or sets err. At the end of the pool, it continues at its
// beginning.
func (c *cursor) take(what string, bytes int64) cuda.Ptr {
	if bytes < 0 {
		bytes = math.MaxInt64 // the product of the sizes overflows
	}

	if bytes > c.pool.bytes {
		if c.err == nil {
			c.err = tooLarge(what, bytes, c.pool.bytes)
		}
		return 0
	}

	if c.at+bytes > c.pool.bytes {
		c.at = 0
	}

	p := c.pool.base + cuda.Ptr(c.at)
	c.at += (bytes + operandAlign - 1) / operandAlign * operandAlign
	return p
}
