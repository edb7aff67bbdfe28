package preflight

import (
	"context"
	"fmt"

	"aicplan/cudaops/cublaslt"
	"aicplan/cudaops/driver"
	"aicplan/cudaops/nccl"
	"aicplan/cudaops/nvrtc"
)

// LibraryChecks look for the CUDA libraries that the native runtimes open.
func LibraryChecks() []Check {
	return []Check{{
		Name: "libraries", Summary: "the CUDA libraries that the runtime opens", Needs: "runtime",
		Look: func(_ context.Context, t Target) []Finding { return lookLibraries(t.Runtime.Kind) },
	}}
}

// lookLibraries opens what a kind of runtime needs. The errors of the loaders
// say which names were tried and where.
func lookLibraries(kind string) []Finding {
	if kind != "cuda" && kind != "nccl" {
		return []Finding{{OK: true, Message: "a runtime of kind " + kind + " opens no CUDA library of its own"}}
	}
	drv, err := driver.Open()
	if err != nil {
		return []Finding{{Message: err.Error(), Fix: "run on a machine with the NVIDIA driver; in a container, start it with --gpus all"}}
	}
	out := []Finding{{OK: true, Message: drv.Path()}}
	version, err := drv.Version()
	if err != nil {
		return append(out, Finding{Message: err.Error(), Fix: "look at nvidia-smi; the driver may have to be loaded again"})
	}
	found := func(name, path string, err error) {
		if err != nil {
			out = append(out, Finding{Message: err.Error(), Fix: fmt.Sprintf("install %s for CUDA %d, or put its folder on LD_LIBRARY_PATH", name, version/1000)})
			return
		}
		out = append(out, Finding{OK: true, Message: path})
	}
	if kind == "cuda" {
		lt, err := cublaslt.Load(version)
		found("cuBLASLt", pathOf(lt, err), err)
		rtc, err := nvrtc.Open(version)
		found("NVRTC", pathOf(rtc, err), err)
		return out
	}
	lib, err := nccl.Open()
	found("NCCL", pathOf(lib, err), err)
	return out
}

func pathOf(lib interface{ Path() string }, err error) string {
	if err != nil {
		return ""
	}
	return lib.Path()
}
