package ops

import (
	"errors"
	"fmt"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/dl"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// failureOf classifies an error. own is true if the case runs a user's kernel, whose faults are
// bugs of the collector.
func failureOf(err error, own bool) worker.Failure {
	f := worker.FailureOf(err)
	if f.Class != "" {
		return f
	}

	var (
		driver  *cuda.DriverError
		blas    *cuda.BLASError
		compile *cuda.CompileError
	)
	faulty := worker.ClassFrameworkBug
	if own {
		faulty = worker.ClassCollectorBug
	}

	switch {
	case f.Exception == "panic":
		f.Class = worker.ClassCollectorBug
	case errors.As(err, &compile):
		f.Class, f.Exception = worker.ClassCollectorBug, "compile error"
	case errors.As(err, &driver):
		f.Exception = driver.Name
		switch {
		case cuda.OutOfMemory(err):
			f.Class = worker.ClassResourceIssue
		case cuda.Sticky(err):
			f.Class, f.Fatal = faulty, true
		default:
			f.Class = faulty
		}
	case errors.As(err, &blas):
		f.Class, f.Exception = worker.ClassFrameworkBug, "cuBLASLt"
		switch {
		case blas.Code == cuda.StatusAllocFailed:
			f.Class = worker.ClassResourceIssue
		case cuda.Unsupported(err):
			f.Class = worker.ClassUnsupportedConfig
		case blas.Code == cuda.StatusExecution || blas.Code == cuda.StatusInternal:
			// The library also returns these codes if the context is lost.
			f.Fatal = true
		}
	case errors.Is(err, ErrGate), errors.Is(err, measure.ErrTimer):
		f.Class = worker.ClassTransient
	case dl.IsNotFound(err):
		f.Class, f.Exception = worker.ClassUnsupportedConfig, "library not found"
	}

	return f
}

// unsupported returns the error if the device or a library has no kernel for a case.
func unsupported(what, format string, args ...any) error {
	return &worker.Failure{Class: worker.ClassUnsupportedConfig, Exception: "unsupported",
		Message: what + ": " + fmt.Sprintf(format, args...)}
}

// tooLarge returns the error for operands that do not fit into the part of the arena for them. Sizes are in bytes.
func tooLarge(what string, bytes, pool int64) error {
	return &worker.Failure{Class: worker.ClassResourceIssue, Exception: "out of memory",
		Message: fmt.Sprintf("%s needs %.2f GiB; the arena has %.2f GiB for it", what, float64(bytes)/(1<<30),
			float64(pool)/(1<<30))}
}
