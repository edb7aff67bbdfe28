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
		missing *UnsupportedError
		large   *TooLargeError
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
	case errors.As(err, &missing):
		f.Class, f.Exception = worker.ClassUnsupportedConfig, "unsupported"
	case errors.As(err, &large):
		f.Class, f.Exception = worker.ClassResourceIssue, "out of memory"
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

// UnsupportedError is the error if the device or a library has no kernel for a case.
type UnsupportedError struct {
	What string
	Err  error
}

func (e *UnsupportedError) Error() string { return e.What + ": " + e.Err.Error() }

func (e *UnsupportedError) Unwrap() error { return e.Err }

func unsupported(what, format string, args ...any) error {
	return &UnsupportedError{What: what, Err: fmt.Errorf(format, args...)}
}
