// Package ops measures kernels on one GPU: matrix products, memory traffic,
// elementwise kernels and users' kernels. It prepares cases (operands in an arena, captured
// graphs), runs bursts with readings of the device's clock around every block, and contains
// the worker host of cuda runtimes.
package ops

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"aicplan/cudaops/cuda"
)

// Libraries are the libraries of a device. Lt and RTC may be nil; LtErr and RTCErr are then the
// reasons, and ops that need the library fail.
type Libraries struct {
	Driver cuda.Driver
	Lt     cuda.BLAS
	LtErr  error
	RTC    cuda.Compiler
	RTCErr error
}

// Device is one GPU with its context, stream and arena. Its methods must be called from
// goroutines that called Bind.
type Device struct {
	Lib    Libraries
	Info   cuda.DeviceInfo
	Arena  *Arena
	Peaks  Peaks
	ctx    cuda.Context
	stream cuda.Stream // where measurements run
	prep   cuda.Stream // where graphs are captured
	core   coreKernels
	host   cuda.HostMemory // gate flag and stamps
	gateNo uint32
	events []cuda.Event
	// busy is locked while work on the device must run alone.
	busy sync.Mutex
	// capturing is locked while a graph is captured on the prep stream.
	capturing sync.Mutex
	// modules are those of compiled sources, by source and options.
	modules map[string]cuda.Module
	// shared is the raised limit of dynamic shared memory of kernels, in bytes.
	shared map[cuda.Function]int
}

// coreKernels are the functions of kernels/core.cu.
type coreKernels struct {
	module                                             cuda.Module
	gate, stamp, spin, null, fill, copy, triad, reduce cuda.Function
}

const (
	// maxBlocks is the maximum number of timed blocks of a burst.
	maxBlocks = 64
	// Layout of the mapped host memory: the flag of the gate, the three words of the gate, and
	// two stamps of four words for each block.
	hostFlag   = 0
	hostGate   = 32
	hostStamps = 64
	stampBytes = 32
	hostBytes  = hostStamps + 2*maxBlocks*stampBytes
)

// Bind locks the calling goroutine to its thread and makes the device's context current on it.
// The returned function unlocks it.
func (d *Device) Bind() (func(), error) {
	runtime.LockOSThread()
	if err := d.Lib.Driver.SetCurrent(d.ctx); err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}

	return runtime.UnlockOSThread, nil
}

// NewDevice makes the context of a device current on the calling thread, which the caller must
// have locked, loads the kernels of this package and allocates the arena.
func NewDevice(lib Libraries, index cuda.Device, o OpenOptions) (*Device, error) {
	d := &Device{Lib: lib}
	api := lib.Driver
	var err error
	if d.Info, err = api.Info(index); err != nil {
		return nil, err
	}

	if d.ctx, err = api.Primary(index); err != nil {
		return nil, fmt.Errorf("context of %s: %w", d.Info.Name, err)
	}

	if err = api.SetCurrent(d.ctx); err != nil {
		return nil, err
	}

	if d.stream, err = api.NewStream(); err != nil {
		return nil, err
	}

	if d.prep, err = api.NewStream(); err != nil {
		return nil, err
	}

	if err = d.loadCore(); err != nil {
		return nil, fmt.Errorf("kernels of aicplan: %w", err)
	}

	if d.host, err = api.HostAlloc(hostBytes); err != nil {
		return nil, err
	}

	for range 2 * maxBlocks {
		e, err := api.NewEvent()
		if err != nil {
			return nil, err
		}

		d.events = append(d.events, e)
	}

	bytes := o.Arena
	if bytes == 0 {
		free, _, err := api.MemInfo()
		if err != nil {
			return nil, err
		}

		bytes = ArenaBytes(free)
	}

	if d.Arena, err = newArena(d, bytes); err != nil {
		return nil, err
	}

	return d, nil
}

func (d *Device) loadCore() error {
	api := d.Lib.Driver
	var err error
	if d.core.module, err = api.LoadModule(corePTX); err != nil {
		return err
	}

	for name, at := range map[string]*cuda.Function{
		"gate": &d.core.gate, "stamp": &d.core.stamp, "spin": &d.core.spin, "null": &d.core.null,
		"fill": &d.core.fill, "copy": &d.core.copy, "triad": &d.core.triad, "reduce": &d.core.reduce,
	} {
		if *at, err = api.Function(d.core.module, "aicplan_"+name); err != nil {
			return err
		}
	}

	return nil
}

// compile compiles and loads a program, once for each source and options, and returns one of its functions.
func (d *Device) compile(p cuda.Program, entry string) (cuda.Function, error) {
	key := fmt.Sprintf("%q %q", p.Source, p.Options)
	m, ok := d.modules[key]
	if !ok {
		if d.Lib.RTC == nil {
			return 0, fmt.Errorf("%s is compiled at run time: %w", p.Name, d.Lib.RTCErr)
		}

		p.SM = d.Info.SM()
		cubin, err := d.Lib.RTC.Compile(p)
		if err != nil {
			return 0, err
		}

		if m, err = d.Lib.Driver.LoadModule(cubin); err != nil {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
		}

		if d.modules == nil {
			d.modules = map[string]cuda.Module{}
		}

		d.modules[key] = m
	}

	f, err := d.Lib.Driver.Function(m, entry)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p.Name, err)
	}
	return f, nil
}

// Close frees the device's memory. The context remains.
func (d *Device) Close() error {
	if d.Arena == nil {
		return nil
	}

	return d.Lib.Driver.Free(d.Arena.base)
}

// lost reports whether the context is unusable.
func (d *Device) lost() bool {
	// A stream cannot be synchronized while it captures.
	d.capturing.Lock()
	defer d.capturing.Unlock()
	return cuda.Sticky(d.Lib.Driver.SyncStream(d.prep))
}

// word returns a 64-bit word of the mapped host memory.
func (d *Device) word(at int) uint64 {
	return binary.LittleEndian.Uint64(d.host.Bytes[at:])
}
