package comm

import (
	_ "embed"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
)

//go:embed pattern.cu
var patternSource string

// Node contains the libraries of a machine, real or fake.
type Node struct {
	Driver  cuda.Driver
	NCCL    cuda.NCCL
	Compile cuda.Compiler
	Clock   measure.Clock

	// KernelDriver is the version of the kernel driver, or "" if unknown.
	KernelDriver string
}

// OpenNode opens the libraries of this machine. The error contains the missing library and where it was
// searched.
func OpenNode() (*Node, error) {
	d, err := cuda.OpenDriver()
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
		Driver: d, NCCL: lib, Compile: compiler, Clock: measure.NewSystemClock(),
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
