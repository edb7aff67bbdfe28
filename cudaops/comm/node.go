package comm

import (
	_ "embed"
	"unsafe"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/dl"
	"aicplan/cudaops/measure"
)

//go:embed pattern.cu
var patternSource string

// Node contains the libraries of a machine, real or fake.
type Node struct {
	Driver  cuda.Driver
	Peers   Peers
	NCCL    cuda.NCCL
	Compile cuda.Compiler
	Clock   measure.Clock

	// Links returns the number of active NVLinks between two devices. It is nil if NVML is not available.
	Links func(a, b int) (int, bool)

	// KernelDriver is the version of the kernel driver, or "" if unknown.
	KernelDriver string
}

// Peers are driver calls that are only used by this package.
type Peers interface {
	// RecordExternal records an event such that a graph that captures it records it at each replay.
	RecordExternal(cuda.Event, cuda.Stream) error
	// Idle reports whether all work queued on the stream is done. It is cheaper than an event, and than an
	// error for unfinished work.
	Idle(cuda.Stream) (bool, error)
	// P2P returns an attribute of the path from one device to another.
	P2P(attr P2PAttribute, src, dst cuda.Device) (int, error)
}

// P2PAttribute is a CUdevice_P2PAttribute.
type P2PAttribute int

// Attributes of a path between two devices.
const (
	P2PPerformanceRank P2PAttribute = 1 // 0 is the fastest path of the machine
	P2PAccess          P2PAttribute = 2
	P2PNativeAtomics   P2PAttribute = 3
)

type peerDriver struct {
	recordFlags, attribute, query uintptr
}

// OpenPeers opens the driver library for the calls of Peers.
func OpenPeers() (Peers, error) {
	lib, err := dl.Open(cuda.DriverSpec)
	if err != nil {
		return nil, err
	}

	p := &peerDriver{}
	err = lib.Bind(map[string]*uintptr{
		"cuEventRecordWithFlags": &p.recordFlags, "cuDeviceGetP2PAttribute": &p.attribute, "cuStreamQuery": &p.query,
	})
	return p, err
}

func (p *peerDriver) RecordExternal(e cuda.Event, s cuda.Stream) error {
	const external = 1
	if code := int(int32(dl.Call(p.recordFlags, uintptr(e), uintptr(s), external))); code != 0 {
		return cuda.NewDriverError("cuEventRecordWithFlags", code)
	}
	return nil
}

func (p *peerDriver) Idle(s cuda.Stream) (bool, error) {
	switch code := int(int32(dl.Call(p.query, uintptr(s)))); code {
	case 0:
		return true, nil
	case cuda.CodeNotReady:
		return false, nil
	default:
		return false, cuda.NewDriverError("cuStreamQuery", code)
	}
}

func (p *peerDriver) P2P(attr P2PAttribute, src, dst cuda.Device) (int, error) {
	var v int32
	if code := int(int32(dl.Call(p.attribute, uintptr(unsafe.Pointer(&v)), uintptr(attr), uintptr(src),
		uintptr(dst)))); code != 0 {
		return 0, cuda.NewDriverError("cuDeviceGetP2PAttribute", code)
	}
	return int(v), nil
}

// OpenNode opens the libraries of this machine. The error contains the missing library and where it was
// searched.
func OpenNode() (*Node, error) {
	d, err := cuda.OpenDriver()
	if err != nil {
		return nil, err
	}

	peers, err := OpenPeers()
	if err != nil {
		return nil, err
	}

	version, err := d.Version()
	if err != nil {
		return nil, err
	}

	compiler, err := cuda.OpenCompiler(version)
	if err != nil {
		return nil, err
	}

	lib, err := cuda.OpenNCCL()
	if err != nil {
		return nil, err
	}

	return &Node{
		Driver: d, Peers: peers, NCCL: lib, Compile: compiler, Clock: measure.NewSystemClock(),
		Links: nvlinks(d), KernelDriver: kernelDriver(),
	}, nil
}
