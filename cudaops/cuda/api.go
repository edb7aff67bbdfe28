// Package cuda binds the CUDA driver, NVRTC, cuBLASLt and NCCL, which it loads at run time. Callers use the
// interfaces Driver, Compiler, BLAS and NCCL, which the package cudatest implements with a virtual clock.
//
// A CUDA context is current per operating system thread. A goroutine must lock its thread
// (runtime.LockOSThread) and call SetCurrent before it uses the API. Contexts, streams, events and memory
// may then be used from any such goroutine.
//
// Matrices of cuBLASLt are column-major. RowMajorLinear returns the problem for y = x W^T with row-major
// tensors. NCCL reads its environment variables (NCCL_*) when the first communicator is created, so they must
// be set before. A communicator belongs to one device. Only one thread at a time may use it.
package cuda

// Handles of the driver. The zero value means none, or the default stream for Stream.
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

// Driver is the subset of the driver used by this program. Errors are *DriverError.
type Driver interface {
	// Version returns the CUDA version that the driver supports, for example 13000.
	Version() (int, error)
	Count() (int, error)
	Info(Device) (DeviceInfo, error)
	Attribute(Device, Attribute) (int, error)
	// Primary retains the device's primary context, which is the one that libraries use.
	Primary(Device) (Context, error)
	// SetCurrent makes ctx current on the calling thread.
	SetCurrent(ctx Context) error
	CanAccessPeer(dev, peer Device) (bool, error)
	// EnablePeer allows the current context to access memory of peer.
	EnablePeer(peer Context) error

	// Memory. Calls with a stream return when the operation is queued.

	Alloc(bytes int64) (Ptr, error)
	Free(Ptr) error
	// MemInfo returns free and total bytes of the current device.
	MemInfo() (free, total int64, err error)
	// HostAlloc returns page-locked host memory that is mapped to the device at Host.Device.
	HostAlloc(bytes int) (HostMemory, error)
	Memset8(p Ptr, v byte, bytes int64, s Stream) error
	Memset32(p Ptr, v uint32, words int64, s Stream) error
	// CopyDtoH copies len(b) bytes and returns when they are copied.
	CopyDtoH(b []byte, src Ptr) error
	CopyPeer(dst Ptr, dstCtx Context, src Ptr, srcCtx Context, bytes int64, s Stream) error

	// Streams order work, and events time it.

	NewStream() (Stream, error)
	SyncStream(Stream) error
	NewEvent() (Event, error)
	Record(Event, Stream) error
	// RecordExternal records an event such that a graph that captures it records it at each replay.
	RecordExternal(Event, Stream) error
	// Idle reports whether all work queued on the stream is done. It is cheaper than an event.
	Idle(Stream) (bool, error)
	// Query reports whether the event has completed.
	Query(Event) (bool, error)
	// Elapsed returns the milliseconds between two completed events.
	Elapsed(start, end Event) (float64, error)

	// Modules are loaded code.

	// LoadModule loads a cubin, a fatbin or PTX text.
	LoadModule(image []byte) (Module, error)
	Function(Module, string) (Function, error)
	// SetMaxDynamicShared raises a kernel's limit of dynamic shared memory in bytes.
	SetMaxDynamicShared(Function, int) error
	Launch(Launch, Stream) error

	// Graphs are work that was captured on a stream.

	// BeginCapture starts a capture on a stream in thread-local mode, which does not restrict other
	// threads.
	BeginCapture(Stream) error
	// EndCapture ends the capture. After a failed capture, it returns the error and the stream remains
	// usable.
	EndCapture(Stream) (Graph, error)
	Instantiate(Graph) (GraphExec, error)
	// Upload transfers a graph to the device, so that its first launch is not slower than later ones.
	Upload(GraphExec, Stream) error
	LaunchGraph(GraphExec, Stream) error
	DestroyGraph(Graph) error
	DestroyExec(GraphExec) error
}

// HostMemory is page-locked memory, mapped into the device's address space.
type HostMemory struct {
	Bytes  []byte
	Device Ptr
}

// Launch describes a kernel launch. Args are the kernel's parameters in order: Ptr, int32, uint32, int64,
// uint64, float32, float64 or a pointer-sized handle. A struct of 8-byte members as the last parameter is
// passed as its members, because arguments are consecutive 8-byte words.
type Launch struct {
	Func         Function
	Grid, Block  [3]int
	SharedMemory int
	Args         []any
}

// DeviceInfo describes a device.
type DeviceInfo struct {
	Index       int    `json:"index"` // in the order of CUDA_DEVICE_ORDER
	Name        string `json:"name"`
	UUID        string `json:"uuid"` // GPU-xxxxxxxx-..., as in NVML
	PCI         string `json:"pci"`  // 0000:18:00.0
	MemoryBytes int64  `json:"memory_bytes"`
	SMs         int    `json:"sms"`
	L2Bytes     int64  `json:"l2_bytes"`
	Major       int    `json:"cc_major"`
	Minor       int    `json:"cc_minor"`
}

// SM returns the compute capability as one number: 90 for 9.0.
func (i DeviceInfo) SM() int { return i.Major*10 + i.Minor }

// Attribute is a CUdevice_attribute.
type Attribute int

// Attributes used by this program.
const (
	AttrMultiprocessors Attribute = 16
	AttrMemoryBusWidth  Attribute = 37 // bits
	AttrL2Bytes         Attribute = 38
	AttrCCMajor         Attribute = 75
	AttrCCMinor         Attribute = 76
)
