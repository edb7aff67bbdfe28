//go:build linux

// Package nccltest is a node of several GPUs without one: a CUDA driver with
// memory that holds bytes, streams that are queues, and an NCCL whose
// collectives move those bytes. Time is virtual: it passes when work is waited
// for, by latencies that the test sets, so a measured time is known beforehand.
//
// The current context belongs to the operating system thread, as in CUDA.
package nccltest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"aicplan/cudaops/driver"
)

// Node is the machine. Fields are set before it is used.
type Node struct {
	driver.API // calls that this package does not make fail loudly

	// Latency is how long a collective takes; nil means 10 us.
	Latency func(Op) time.Duration
	// Corrupt spoils a byte of a rank's result where it returns true.
	Corrupt func(op Op, rank int) bool
	// Stall makes a collective never end where it returns true.
	Stall func(Op) bool
	// Kernels are what modules hold, by function name.
	Kernels map[string]Kernel
	// FreeBytes is what MemInfo says, per device.
	FreeBytes int64

	mu       sync.Mutex
	moved    *sync.Cond
	now      time.Duration
	next     uint64
	gpus     int
	current  map[int]int // device by thread
	memory   []*region
	streams  map[driver.Stream]*stream
	events   map[driver.Event]*event
	images   map[driver.Module]string
	funcs    map[driver.Function]Kernel
	graphs   map[driver.Graph][]func()
	execs    map[driver.GraphExec][]func()
	groups   map[string]*group
	comms    map[uint64]*comm
	grouped  map[int]*pending // open groups by thread
	arrived  map[string][]*work
	problems []string
	counts   map[string]int
}

// Op describes a collective, a copy or a kernel of several ranks.
type Op struct {
	Name  string // all_reduce, copy, or the kernel's name
	Ranks int
	Bytes int64 // of one rank's larger buffer
	No    int   // how many of this name came before
}

// Kernel is the meaning of a device function.
type Kernel struct {
	// Meet names the launch that the arguments belong to and the number of ranks
	// that take part; nil for a kernel of one device.
	Meet func(args []any) (key string, rank, ranks int)
	// Run does the work, with the arguments of all ranks in their order.
	Run func(memory func(driver.Ptr, int64) []byte, args [][]any)
}

type region struct {
	at    driver.Ptr
	bytes []byte
	gpu   int
}

// New returns a node of so many GPUs.
func New(gpus int) *Node {
	n := &Node{
		gpus: gpus, next: 1 << 20, FreeBytes: 1 << 30, Kernels: map[string]Kernel{},
		current: map[int]int{}, streams: map[driver.Stream]*stream{}, events: map[driver.Event]*event{},
		images: map[driver.Module]string{}, funcs: map[driver.Function]Kernel{},
		graphs: map[driver.Graph][]func(){}, execs: map[driver.GraphExec][]func(){},
		groups: map[string]*group{}, comms: map[uint64]*comm{}, grouped: map[int]*pending{},
		arrived: map[string][]*work{}, counts: map[string]int{},
	}
	n.moved = sync.NewCond(&n.mu)
	return n
}

// Problems lists misuse that real libraries answer with corruption or a crash.
func (n *Node) Problems() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.problems...)
}

// Live counts communicators that exist.
func (n *Node) Live() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	live := 0
	for _, c := range n.comms {
		if !c.dead {
			live++
		}
	}
	return live
}

// Happened returns how often something happened: "init", "abort", "destroy",
// "graph" and the names of collectives.
func (n *Node) Happened(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts[what]
}

// Used lists the devices that memory was allocated on.
func (n *Node) Used() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []int
	for _, r := range n.memory {
		if !slices.Contains(out, r.gpu) {
			out = append(out, r.gpu)
		}
	}
	slices.Sort(out)
	return out
}

func (n *Node) problem(format string, args ...any) {
	n.problems = append(n.problems, fmt.Sprintf(format, args...))
}

// Now implements measure.Clock.
func (n *Node) Now() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// NowLocked is Now for the functions Latency, Corrupt and Stall, which run
// inside a call of the node.
func (n *Node) NowLocked() time.Duration { return n.now }

// Sleep implements measure.Clock; it returns at once.
func (n *Node) Sleep(ctx context.Context, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now += d
	return ctx.Err()
}

func (n *Node) handle() uint64 {
	n.next += 1 << 12
	return n.next
}

// device is the GPU of the calling thread.
func (n *Node) device(call string) (int, error) {
	d, ok := n.current[syscall.Gettid()]
	if !ok {
		return 0, driver.NewError(call, driver.CodeNotInitialized)
	}
	return d, nil
}

// Version implements driver.Devices.
func (n *Node) Version() (int, error) { return 13000, nil }

// Count implements driver.Devices.
func (n *Node) Count() (int, error) { return n.gpus, nil }

// Info implements driver.Devices.
func (n *Node) Info(d driver.Device) (driver.Info, error) {
	if int(d) >= n.gpus {
		return driver.Info{}, driver.NewError("cuDeviceGet", driver.CodeInvalidDevice)
	}
	return driver.Info{Index: int(d), Name: "Fake GPU", UUID: fmt.Sprintf("GPU-%d", d), Major: 9}, nil
}

// Primary implements driver.Devices.
func (n *Node) Primary(d driver.Device) (driver.Context, error) { return driver.Context(d) + 1, nil }

// SetCurrent implements driver.Devices.
func (n *Node) SetCurrent(c driver.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current[syscall.Gettid()] = int(c) - 1
	return nil
}

// CanAccessPeer implements driver.Devices.
func (n *Node) CanAccessPeer(a, b driver.Device) (bool, error) { return a != b, nil }

// EnablePeer implements driver.Devices.
func (n *Node) EnablePeer(driver.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err := n.device("cuCtxEnablePeerAccess")
	return err
}

// MemInfo implements driver.Memory.
func (n *Node) MemInfo() (free, total int64, err error) { return n.FreeBytes, n.FreeBytes, nil }

// Alloc implements driver.Memory.
func (n *Node) Alloc(bytes int64) (driver.Ptr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, err := n.device("cuMemAlloc")
	if err != nil {
		return 0, err
	}
	if bytes > n.FreeBytes {
		return 0, driver.NewError("cuMemAlloc", driver.CodeOutOfMemory)
	}
	at := driver.Ptr(n.handle())
	n.next += uint64(bytes)
	n.memory = append(n.memory, &region{at, make([]byte, bytes), d})
	return at, nil
}

// Free implements driver.Memory.
func (n *Node) Free(p driver.Ptr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, r := range n.memory {
		if r.at == p {
			n.memory = append(n.memory[:i], n.memory[i+1:]...)
			return nil
		}
	}
	n.problem("free of what is not allocated")
	return driver.NewError("cuMemFree", driver.CodeInvalidValue)
}

// bytes returns device memory. The caller holds mu.
func (n *Node) bytes(p driver.Ptr, count int64) []byte {
	for _, r := range n.memory {
		if p >= r.at && int64(p-r.at)+count <= int64(len(r.bytes)) {
			return r.bytes[p-r.at : int64(p-r.at)+count]
		}
	}
	n.problem("access to %d bytes at %#x, which is not allocated", count, uint64(p))
	return make([]byte, count)
}

// CopyDtoH implements driver.Memory.
func (n *Node) CopyDtoH(b []byte, src driver.Ptr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	copy(b, n.bytes(src, int64(len(b))))
	return nil
}

// LoadModule implements driver.Modules; the image is the text that Compile
// returned.
func (n *Node) LoadModule(image []byte) (driver.Module, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := driver.Module(n.handle())
	n.images[m] = string(image)
	return m, nil
}

// Function implements driver.Modules.
func (n *Node) Function(_ driver.Module, name string) (driver.Function, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, ok := n.Kernels[name]
	if !ok {
		return 0, driver.NewError("cuModuleGetFunction "+name, driver.CodeNotFound)
	}
	f := driver.Function(n.handle())
	n.funcs[f] = k
	return f, nil
}
