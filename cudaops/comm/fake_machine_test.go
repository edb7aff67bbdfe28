//go:build linux

package comm

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"aicplan/cudaops/cuda"
)

// machine is the simulated machine. Its exported fields must be set before use.
type machine struct {
	cuda.Driver // nil, so that unimplemented calls panic

	// Latency is the duration of a collective. Nil means 10 us.
	Latency func(fakeOp) time.Duration

	// Corrupt, if it returns true, changes a byte of a rank's result.
	Corrupt func(op fakeOp, rank int) bool

	// Stall, if it returns true, makes a collective never end.
	Stall func(fakeOp) bool

	// Kernels are the functions in all modules by name.
	Kernels map[string]fakeKernel

	// FreeBytes is the free memory reported by MemInfo, per device.
	FreeBytes int64

	mu       sync.Mutex
	moved    *sync.Cond
	now      time.Duration
	next     uint64
	gpus     int
	current  map[int]int // device by thread
	memory   []*fakeRegion
	streams  map[cuda.Stream]*fakeStream
	events   map[cuda.Event]*fakeEvent
	images   map[cuda.Module]string
	funcs    map[cuda.Function]fakeKernel
	graphs   map[cuda.Graph][]func()
	execs    map[cuda.GraphExec][]func()
	groups   map[string]*fakeGroup
	comms    map[uint64]*fakeComm
	grouped  map[int]*fakePending // open groups by thread
	arrived  map[string][]*fakeWork
	problems []string
	counts   map[string]int
}

// fakeOp describes a collective or a copy.
type fakeOp struct {
	Name  string // all_reduce, or copy
	Ranks int
	Bytes int64 // of the larger buffer of one rank
	No    int   // number of earlier ops with this name
}

// fakeKernel implements a device function.
type fakeKernel func(memory func(cuda.Ptr, int64) []byte, args []any)

type fakeRegion struct {
	at    cuda.Ptr
	bytes []byte
	gpu   int
}

// newMachine returns a node with the given number of GPUs.
func newMachine(gpus int) *machine {
	n := &machine{
		gpus: gpus, next: 1 << 20, FreeBytes: 1 << 30, Kernels: map[string]fakeKernel{},
		current: map[int]int{}, streams: map[cuda.Stream]*fakeStream{}, events: map[cuda.Event]*fakeEvent{},
		images: map[cuda.Module]string{}, funcs: map[cuda.Function]fakeKernel{},
		graphs: map[cuda.Graph][]func(){}, execs: map[cuda.GraphExec][]func(){},
		groups: map[string]*fakeGroup{}, comms: map[uint64]*fakeComm{}, grouped: map[int]*fakePending{},
		arrived: map[string][]*fakeWork{}, counts: map[string]int{},
	}

	n.moved = sync.NewCond(&n.mu)
	return n
}

// Problems returns misuse that causes corruption or a crash with the real libraries.
func (n *machine) Problems() []string {
	defer n.lock()()
	return append([]string(nil), n.problems...)
}

// Happened returns how often something happened: "init", "graph" or the name of a collective.
func (n *machine) Happened(what string) int {
	defer n.lock()()
	return n.counts[what]
}

// Used returns the devices with allocated memory.
func (n *machine) Used() []int {
	defer n.lock()()
	var out []int

	for _, r := range n.memory {
		if !slices.Contains(out, r.gpu) {
			out = append(out, r.gpu)
		}
	}

	slices.Sort(out)
	return out
}

// lock locks the node and returns a function that unlocks it.
func (n *machine) lock() func() {
	n.mu.Lock()
	return n.mu.Unlock
}

func (n *machine) problem(format string, args ...any) {
	n.problems = append(n.problems, fmt.Sprintf(format, args...))
}

// Now implements measure.Clock.
func (n *machine) Now() time.Duration {
	defer n.lock()()
	return n.now
}

// NowLocked is Now for the functions Latency, Corrupt and Stall, which are called with mu locked.
func (n *machine) NowLocked() time.Duration { return n.now }

// Sleep implements measure.Clock. It advances the clock and returns at once.
func (n *machine) Sleep(ctx context.Context, d time.Duration) error {
	defer n.lock()()
	n.now += d
	return ctx.Err()
}

func (n *machine) handle() uint64 {
	n.next += 1 << 12
	return n.next
}

// device returns the GPU of the calling thread.
func (n *machine) device(call string) (int, error) {
	d, ok := n.current[syscall.Gettid()]
	if !ok {
		return 0, cuda.NewDriverError(call, 3)
	}
	return d, nil
}

// Version implements cuda.Driver.
func (n *machine) Version() (int, error) { return 13000, nil }

// Count implements cuda.Driver.
func (n *machine) Count() (int, error) { return n.gpus, nil }

// Info implements cuda.Driver.
func (n *machine) Info(d cuda.Device) (cuda.DeviceInfo, error) {
	if int(d) >= n.gpus {
		return cuda.DeviceInfo{}, cuda.NewDriverError("cuDeviceGet", 101)
	}
	return cuda.DeviceInfo{Index: int(d), Name: "Fake GPU", UUID: fmt.Sprintf("GPU-%d", d), Major: 9}, nil
}

// Primary implements cuda.Driver.
func (n *machine) Primary(d cuda.Device) (cuda.Context, error) { return cuda.Context(d) + 1, nil }

// SetCurrent implements cuda.Driver.
func (n *machine) SetCurrent(c cuda.Context) error {
	defer n.lock()()
	n.current[syscall.Gettid()] = int(c) - 1
	return nil
}

// CanAccessPeer implements cuda.Driver.
func (n *machine) CanAccessPeer(a, b cuda.Device) (bool, error) { return a != b, nil }

// EnablePeer implements cuda.Driver.
func (n *machine) EnablePeer(cuda.Context) error {
	defer n.lock()()
	_, err := n.device("cuCtxEnablePeerAccess")
	return err
}

// MemInfo implements cuda.Driver.
func (n *machine) MemInfo() (free, total int64, err error) { return n.FreeBytes, n.FreeBytes, nil }

// Alloc implements cuda.Driver.
func (n *machine) Alloc(bytes int64) (cuda.Ptr, error) {
	defer n.lock()()
	d, err := n.device("cuMemAlloc")
	if err != nil {
		return 0, err
	}

	if bytes > n.FreeBytes {
		return 0, cuda.NewDriverError("cuMemAlloc", cuda.CodeOutOfMemory)
	}

	at := cuda.Ptr(n.handle())
	n.next += uint64(bytes)
	n.memory = append(n.memory, &fakeRegion{at, make([]byte, bytes), d})

	return at, nil
}

// Free implements cuda.Driver.
func (n *machine) Free(p cuda.Ptr) error {
	defer n.lock()()

	for i, r := range n.memory {
		if r.at == p {
			n.memory = append(n.memory[:i], n.memory[i+1:]...)
			return nil
		}
	}

	n.problem("free of what is not allocated")
	return cuda.NewDriverError("cuMemFree", cuda.CodeInvalidValue)
}

// bytes returns device memory. The caller must have locked mu.
func (n *machine) bytes(p cuda.Ptr, count int64) []byte {
	for _, r := range n.memory {
		if p >= r.at && int64(p-r.at)+count <= int64(len(r.bytes)) {
			return r.bytes[p-r.at : int64(p-r.at)+count]
		}
	}
	n.problem("access to %d bytes at %#x, which is not allocated", count, uint64(p))
	return make([]byte, count)
}

// CopyDtoH implements cuda.Driver.
func (n *machine) CopyDtoH(b []byte, src cuda.Ptr) error {
	defer n.lock()()
	copy(b, n.bytes(src, int64(len(b))))
	return nil
}

// LoadModule implements cuda.Driver. image is the text returned by Compile.
func (n *machine) LoadModule(image []byte) (cuda.Module, error) {
	defer n.lock()()
	m := cuda.Module(n.handle())
	n.images[m] = string(image)
	return m, nil
}

// Function implements cuda.Driver.
func (n *machine) Function(_ cuda.Module, name string) (cuda.Function, error) {
	defer n.lock()()
	k, ok := n.Kernels[name]
	if !ok {
		return 0, cuda.NewDriverError("cuModuleGetFunction "+name, 500)
	}

	f := cuda.Function(n.handle())
	n.funcs[f] = k
	return f, nil
}
