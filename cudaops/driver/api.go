// Package driver is a thin binding of the CUDA driver API, opened at run time.
// Everything above it talks to the API interface, which the package drivertest
// implements with a virtual clock.
//
// A CUDA context is current per OS thread. A goroutine that calls the API locks
// its thread (runtime.LockOSThread) and calls SetCurrent first; contexts,
// streams, events and memory may then be used from any such goroutine.
package driver

// Handles of the driver. The zero value means none (for Stream: the default
// stream).
type (
	Device    int
	Context   uintptr
	Ptr       uint64 // device address
	Stream    uintptr
	Event     uintptr
	Module    uintptr
	Function  uintptr
	Graph     uintptr
	GraphExec uintptr
)

// API is the part of the driver that this program uses. Errors are *Error.
type API interface {
	Devices
	Memory
	Streams
	Modules
	Graphs
}

// Devices finds devices and makes their contexts current.
type Devices interface {
	// Version is the CUDA version that the driver supports, for example 13000.
	Version() (int, error)
	Count() (int, error)
	Info(Device) (Info, error)
	Attribute(Device, Attribute) (int, error)
	// Primary retains the device's primary context, the one that libraries use.
	Primary(Device) (Context, error)
	ReleasePrimary(Device) error
	// SetCurrent makes ctx current on the calling thread.
	SetCurrent(ctx Context) error
	// Synchronize waits for all work of the current context.
	Synchronize() error
	CanAccessPeer(dev, peer Device) (bool, error)
	// EnablePeer lets the current context access memory of peer.
	EnablePeer(peer Context) error
}

// Memory allocates and moves bytes. Asynchronous calls return when queued.
type Memory interface {
	Alloc(bytes int64) (Ptr, error)
	Free(Ptr) error
	// MemInfo returns free and total bytes of the current device.
	MemInfo() (free, total int64, err error)
	// HostAlloc returns page-locked host memory that the device sees at Ptr.
	HostAlloc(bytes int) (Host, error)
	HostFree(Host) error
	Memset8(p Ptr, v byte, bytes int64, s Stream) error
	Memset32(p Ptr, v uint32, words int64, s Stream) error
	CopyDtoD(dst, src Ptr, bytes int64, s Stream) error
	// CopyHtoD and CopyDtoH move len(b) bytes and return when they are done.
	CopyHtoD(dst Ptr, b []byte) error
	CopyDtoH(b []byte, src Ptr) error
	CopyPeer(dst Ptr, dstCtx Context, src Ptr, srcCtx Context, bytes int64, s Stream) error
}

// Streams orders work and times it.
type Streams interface {
	NewStream() (Stream, error)
	DestroyStream(Stream) error
	SyncStream(Stream) error
	NewEvent() (Event, error)
	DestroyEvent(Event) error
	Record(Event, Stream) error
	SyncEvent(Event) error
	// Query says whether the event has completed.
	Query(Event) (bool, error)
	// Elapsed returns the milliseconds between two completed events.
	Elapsed(start, end Event) (float64, error)
}

// Modules loads code and launches it.
type Modules interface {
	// LoadModule takes a cubin, a fatbin or PTX text.
	LoadModule(image []byte) (Module, error)
	UnloadModule(Module) error
	Function(Module, string) (Function, error)
	// SetMaxDynamicShared raises a kernel's limit of dynamic shared memory.
	SetMaxDynamicShared(Function, int) error
	Launch(Launch, Stream) error
}

// Graphs captures what is queued on a stream and replays it.
type Graphs interface {
	// BeginCapture starts capturing on s in thread-local mode: other threads
	// are not restricted.
	BeginCapture(Stream) error
	// EndCapture ends the capture. After a failed capture it returns the error
	// and leaves the stream usable.
	EndCapture(Stream) (Graph, error)
	Instantiate(Graph) (GraphExec, error)
	// Upload moves a graph to the device so that its first launch is like the
	// others.
	Upload(GraphExec, Stream) error
	LaunchGraph(GraphExec, Stream) error
	DestroyGraph(Graph) error
	DestroyExec(GraphExec) error
}

// Host is page-locked memory, mapped into the device's address space.
type Host struct {
	Bytes  []byte
	Device Ptr
}

// Launch describes a kernel launch. Args are the kernel's parameters in order:
// Ptr, int32, uint32, int64, uint64, float32, float64 or a pointer-sized handle.
// A last parameter that is a struct of 8-byte members is given as its members:
// arguments lie one behind the other in words of 8 bytes.
type Launch struct {
	Func         Function
	Grid, Block  [3]int
	SharedMemory int
	Args         []any
}

// Info describes a device.
type Info struct {
	Index       int    `json:"index"` // in the order of CUDA_DEVICE_ORDER
	Name        string `json:"name"`
	UUID        string `json:"uuid"` // GPU-xxxxxxxx-..., as NVML has it
	PCI         string `json:"pci"`  // 0000:18:00.0
	MemoryBytes int64  `json:"memory_bytes"`
	SMs         int    `json:"sms"`
	L2Bytes     int64  `json:"l2_bytes"`
	Major       int    `json:"cc_major"`
	Minor       int    `json:"cc_minor"`
}

// SM is the compute capability as one number: 90 for 9.0.
func (i Info) SM() int { return i.Major*10 + i.Minor }

// Attribute is a CUdevice_attribute.
type Attribute int

// Attributes that this program reads.
const (
	AttrMaxThreadsPerBlock   Attribute = 1
	AttrSharedMemoryPerBlock Attribute = 8
	AttrMultiprocessors      Attribute = 16
	AttrECC                  Attribute = 32
	AttrMemoryBusWidth       Attribute = 37 // bits
	AttrL2Bytes              Attribute = 38
	AttrCCMajor              Attribute = 75
	AttrCCMinor              Attribute = 76
	AttrSharedMemoryOptin    Attribute = 97
)
