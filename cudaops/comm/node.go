package comm

import (
	_ "embed"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/dl"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
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
}

type peerDriver struct {
	recordFlags, query uintptr
}

// OpenPeers opens the driver library for the calls of Peers.
func OpenPeers() (Peers, error) {
	lib, err := dl.Open(cuda.DriverSpec)
	if err != nil {
		return nil, err
	}

	p := &peerDriver{}
	err = lib.Bind(map[string]*uintptr{"cuEventRecordWithFlags": &p.recordFlags, "cuStreamQuery": &p.query})
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
		KernelDriver: kernelDriver(),
	}, nil
}

// kernelDriver returns the driver version reported by NVML, or "" without NVML.
func kernelDriver() string {
	lib, err := nvml.Open()
	if err != nil {
		return ""
	}

	v, err := lib.DriverVersion()
	if err != nil {
		return ""
	}
	return v
}
