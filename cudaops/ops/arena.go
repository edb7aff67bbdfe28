package ops

import (
	"errors"
	"fmt"
	"math"

	"aicplan/cudaops/driver"
)

// DType is an element type as perf tables name it.
type DType string

// Element types of operands.
const (
	Float32  DType = "float32"
	BFloat16 DType = "bfloat16"
	Float16  DType = "float16"
	FP8      DType = "fp8"
	Int8     DType = "int8"
)

// Size is the size of an element in bytes; 0 for an unknown type.
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

// fillType is the type's number in the fill kernel, and the standard deviation
// of its values. int8 gets a wide one, as quantised tensors have.
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
	// operandAlign is the alignment of every operand; allocators of frameworks
	// give as much.
	operandAlign = 512
	// workspaceBytes is what frameworks give cuBLASLt on this class of GPU.
	workspaceBytes = 32 << 20
	// scaleShare is the part of the arena for scale factors of fp8 operands: one
	// factor per 128 elements of the largest operand fits.
	scaleShare = 64 // 1/64 of the arena
)

// Arena is the one allocation of a worker. It is cut into a pool of operands
// per element type, a pool for outputs, scale factors and a workspace. Pools
// are filled once with seeded normals, on first use.
type Arena struct {
	dev       *Device
	base      driver.Ptr
	bytes     int64
	pools     map[DType]*Pool
	Out       *Pool
	Scales    *Pool // ones, float32
	Workspace driver.Ptr
	seed      uint64
}

// Pool is a stretch of the arena that operands are cut from.
type Pool struct {
	base   driver.Ptr
	bytes  int64
	filled bool
	dtype  DType
}

// Bytes is the pool's size.
func (p *Pool) Bytes() int64 { return p.bytes }

// ArenaBytes chooses how much memory a worker takes: less than half of what is
// free, so that a second worker fits on the device, and no more than 40 GiB.
func ArenaBytes(free int64) int64 {
	return min(free/100*45, 40<<30) &^ (1<<20 - 1)
}

// errNoRoom is about a device whose memory others have.
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
		next += driver.Ptr(n)
		return p
	}
	ws := min(workspaceBytes, bytes/8)
	a.Workspace = cut(ws).base
	a.Scales = cut(bytes / scaleShare)
	rest := bytes - int64(next-base)
	a.Out = cut(rest / 4)
	rest = bytes - int64(next-base)
	// Two bytes per element for two types and one for two: the same number of
	// elements in each.
	for _, t := range []DType{BFloat16, Float16, FP8, Int8} {
		p := cut(rest / 6 * t.Size())
		p.dtype = t
		a.pools[t] = p
	}
	return a, nil
}

func (a *Arena) free() error { return a.dev.Lib.Driver.Free(a.base) }

// SetSeed chooses the data of pools that are not filled yet and refills the
// others on their next use.
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
		// A pair of bfloat16 normals reads as a float of the same size.
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
	err := d.Lib.Driver.Launch(driver.Launch{
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

// TooLargeError says that an operand does not fit into its pool.
type TooLargeError struct {
	What        string
	Bytes, Pool int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s needs %.2f GiB; the arena has %.2f GiB for it", e.What, float64(e.Bytes)/(1<<30),
		float64(e.Pool)/(1<<30))
}

// cursor hands out consecutive operands of one pool, beginning where the case's
// own hash says: a case reads the same places whatever ran before it.
type cursor struct {
	pool *Pool
	at   int64
}

func (p *Pool) cursor(hash uint64) *cursor {
	c := &cursor{pool: p}
	if n := p.bytes / operandAlign; n > 0 {
		c.at = int64(hash%uint64(n)) * operandAlign
	}
	return c
}

// take returns the next bytes of the pool; it starts over at the pool's end.
func (c *cursor) take(what string, bytes int64) (driver.Ptr, error) {
	if bytes < 0 {
		bytes = math.MaxInt64 // a product of sizes that does not fit into its type
	}
	if bytes > c.pool.bytes {
		return 0, &TooLargeError{What: what, Bytes: bytes, Pool: c.pool.bytes}
	}
	if c.at+bytes > c.pool.bytes {
		c.at = 0
	}
	p := c.pool.base + driver.Ptr(c.at)
	c.at += (bytes + operandAlign - 1) / operandAlign * operandAlign
	return p, nil
}
