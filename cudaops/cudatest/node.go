//go:build linux

package cudatest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"aicplan/cudaops/cuda"
)

// Node is the simulated machine. Its exported fields must be set before use.
type Node struct {
	cuda.Driver // nil, so that unimplemented calls panic

	// Latency is the duration of a collective. Nil means 10 us.
	Latency func(Op) time.Duration

	// Corrupt, if it returns true, changes a byte of a rank's result.
	Corrupt func(op Op, rank int) bool

	// Stall, if it returns true, makes a collective never end.
	Stall func(Op) bool

	// Kernels are the functions in all modules by name.
	Kernels map[string]Kernel

	// FreeBytes is the free memory reported by MemInfo, per device.
	FreeBytes int64

	mu       sync.Mutex
	moved    *sync.Cond
	now      time.Duration
	next     uint64
	gpus     int
	current  map[int]int // device by thread
	memory   []*region
	streams  map[cuda.Stream]*nodeStream
	events   map[cuda.Event]*event
	images   map[cuda.Module]string
	funcs    map[cuda.Function]Kernel
	graphs   map[cuda.Graph][]func()
	execs    map[cuda.GraphExec][]func()
	groups   map[string]*group
	comms    map[uint64]*comm
	grouped  map[int]*pending // open groups by thread
	arrived  map[string][]*work
	problems []string
	counts   map[string]int
}

// Op describes a collective or a copy.
type Op struct {
	Name  string // all_reduce, or copy
	Ranks int
	Bytes int64 // of the larger buffer of one rank
	No    int   // number of earlier ops with this name
}

// Kernel implements a device function.
type Kernel func(memory func(cuda.Ptr, int64) []byte, args []any)

type region struct {
	at    cuda.Ptr
	bytes []byte
	gpu   int
}

// NewNode returns a node with the given number of GPUs.
func NewNode(gpus int) *Node {
	n := &Node{
		gpus: gpus, next: 1 << 20, FreeBytes: 1 << 30, Kernels: map[string]Kernel{},
		current: map[int]int{}, streams: map[cuda.Stream]*nodeStream{}, events: map[cuda.Event]*event{},
		images: map[cuda.Module]string{}, funcs: map[cuda.Function]Kernel{},
		graphs: map[cuda.Graph][]func(){}, execs: map[cuda.GraphExec][]func(){},
		groups: map[string]*group{}, comms: map[uint64]*comm{}, grouped: map[int]*pending{},
		arrived: map[string][]*work{}, counts: map[string]int{},
	}

	n.moved = sync.NewCond(&n.mu)
	return n
}

// Problems returns misuse that causes corruption or a crash with the real libraries.
func (n *Node) Problems() []string {
	defer n.lock()()
	return append([]string(nil), n.problems...)
}

// Happened returns how often something happened: "init", "graph" or the name of a collective.
func (n *Node) Happened(what string) int {
	defer n.lock()()
	return n.counts[what]
}

// Used returns the devices with allocated memory.
func (n *Node) Used() []int {
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
func (n *Node) lock() func() {
	n.mu.Lock()
	return n.mu.Unlock
}

func (n *Node) problem(format string, args ...any) {
	n.problems = append(n.problems, fmt.Sprintf(format, args...))
}

// Now implements measure.Clock.
func (n *Node) Now() time.Duration {
	defer n.lock()()
	return n.now
}

// NowLocked is Now for the functions Latency, Corrupt and Stall, which are called with mu locked.
func (n *Node) NowLocked() time.Duration { return n.now }

// Sleep implements measure.Clock. It advances the clock and returns at once.
func (n *Node) Sleep(ctx context.Context, d time.Duration) error {
	defer n.lock()()
	n.now += d
	return ctx.Err()
}

func (n *Node) handle() uint64 {
	n.next += 1 << 12
	return n.next
}

// device returns the GPU of the calling thread.
func (n *Node) device(call string) (int, error) {
	d, ok := n.current[syscall.Gettid()]
	if !ok {
		return 0, cuda.NewDriverError(call, cuda.CodeNotInitialized)
	}
	return d, nil
}

// Version implements driver.Devices.
func (n *Node) Version() (int, error) { return 13000, nil }

// Count implements driver.Devices.
func (n *Node) Count() (int, error) { return n.gpus, nil }

// Info implements driver.Devices.
func (n *Node) Info(d cuda.Device) (cuda.DeviceInfo, error) {
	if int(d) >= n.gpus {
		return cuda.DeviceInfo{}, cuda.NewDriverError("cuDeviceGet", cuda.CodeInvalidDevice)
	}
	return cuda.DeviceInfo{Index: int(d), Name: "Fake GPU", UUID: fmt.Sprintf("GPU-%d", d), Major: 9}, nil
}

// Primary implements driver.Devices.
func (n *Node) Primary(d cuda.Device) (cuda.Context, error) { return cuda.Context(d) + 1, nil }

// SetCurrent implements driver.Devices.
func (n *Node) SetCurrent(c cuda.Context) error {
	defer n.lock()()
	n.current[syscall.Gettid()] = int(c) - 1
	return nil
}

// CanAccessPeer implements driver.Devices.
func (n *Node) CanAccessPeer(a, b cuda.Device) (bool, error) { return a != b, nil }

// EnablePeer implements driver.Devices.
func (n *Node) EnablePeer(cuda.Context) error {
	defer n.lock()()
	_, err := n.device("cuCtxEnablePeerAccess")
	return err
}

// MemInfo implements driver.Memory.
func (n *Node) MemInfo() (free, total int64, err error) { return n.FreeBytes, n.FreeBytes, nil }

// Alloc implements driver.Memory.
func (n *Node) Alloc(bytes int64) (cuda.Ptr, error) {
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
	n.memory = append(n.memory, &region{at, make([]byte, bytes), d})

	return at, nil
}

// Free implements driver.Memory.
func (n *Node) Free(p cuda.Ptr) error {
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
func (n *Node) bytes(p cuda.Ptr, count int64) []byte {
	for _, r := range n.memory {
		if p >= r.at && int64(p-r.at)+count <= int64(len(r.bytes)) {
			return r.bytes[p-r.at : int64(p-r.at)+count]
		}
	}
	n.problem("access to %d bytes at %#x, which is not allocated", count, uint64(p))
	return make([]byte, count)
}

// CopyDtoH implements driver.Memory.
func (n *Node) CopyDtoH(b []byte, src cuda.Ptr) error {
	defer n.lock()()
	copy(b, n.bytes(src, int64(len(b))))
	return nil
}

// LoadModule implements driver.Modules. image is the text returned by Compile.
func (n *Node) LoadModule(image []byte) (cuda.Module, error) {
	defer n.lock()()
	m := cuda.Module(n.handle())
	n.images[m] = string(image)
	return m, nil
}

// Function implements driver.Modules.
func (n *Node) Function(_ cuda.Module, name string) (cuda.Function, error) {
	defer n.lock()()
	k, ok := n.Kernels[name]
	if !ok {
		return 0, cuda.NewDriverError("cuModuleGetFunction "+name, cuda.CodeNotFound)
	}

	f := cuda.Function(n.handle())
	n.funcs[f] = k
	return f, nil
}
