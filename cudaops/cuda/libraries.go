package cuda

import (
	"fmt"

	"aicplan/cudaops/dl"
)

// library is an open shared library.
type library struct{ lib *dl.Library }

// open opens the library and binds the functions of a table.
func (l *library) open(spec dl.Spec, table any) (err error) {
	if l.lib, err = dl.Open(spec); err != nil {
		return err
	}
	return l.lib.BindStruct(table)
}

// Path returns the file of the library.
func (l *library) Path() string { return l.lib.Path }

// DriverSpec describes the driver's library.
var DriverSpec = dl.Spec{
	Name:    "the CUDA driver",
	Sonames: []string{"libcuda.so.1"},
	Global:  true,
	Hint:    "it comes with the NVIDIA kernel driver; inside a container start it with --gpus all",
}

// NCCLSpec describes the library. Python environments are searched before the system's library, so that rows
// are measured with the library that frameworks use.
var NCCLSpec = dl.Spec{
	Name:     "NCCL",
	Sonames:  []string{"libnccl.so.2"},
	Packages: []string{"nvidia/nccl/lib"},
	Hint: "it is the Python package nvidia-nccl-cu13 (or -cu12) or the system package libnccl2; " +
		"AICPLAN_LIBRARY_PATH may name its folder",
}

// CompilerSpec describes NVRTC. The newest version that the driver supports comes first.
func CompilerSpec(driverVersion int) dl.Spec {
	return dl.Spec{
		Name:     "NVRTC",
		Sonames:  versions("libnvrtc.so.%d", driverVersion),
		Packages: []string{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"},
		Siblings: []string{"libnvrtc-builtins.so.[0-9]*"},
		Hint: "it is part of the CUDA toolkit and of the Python package nvidia-cuda-nvrtc; " +
			"AICPLAN_LIBRARY_PATH may name its folder",
	}
}

// BLASSpec describes cuBLASLt. The newest version that the driver supports comes first.
func BLASSpec(driverVersion int) dl.Spec {
	return dl.Spec{
		Name:     "cuBLASLt",
		Sonames:  versions("libcublasLt.so.%d", driverVersion),
		Packages: []string{"nvidia/cu13/lib", "nvidia/cublas/lib"},
		Global:   true,
		Hint: "it is part of the CUDA toolkit and of the Python package nvidia-cublas; " +
			"AICPLAN_LIBRARY_PATH may name its folder",
	}
}

// versions returns the sonames of a library that belongs to CUDA 13 or 12, newest first. A driver of
// version 0 may have both.
func versions(soname string, driverVersion int) []string {
	var out []string
	for _, major := range []int{13, 12} {
		if driverVersion == 0 || driverVersion/1000 >= major {
			out = append(out, fmt.Sprintf(soname, major))
		}
	}
	return out
}

// VersionText formats a CUDA version number: 13000 becomes 13.0.
func VersionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// BLASVersionText formats a version number of cuBLASLt: 130100 becomes 13.1.0.
func BLASVersionText(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }
