package cuda

import (
	"errors"
	"fmt"
)

// CallError is a failed call of a library.
type CallError struct {
	Call string // cuMemAlloc_v2
	Code int
	Name string // CUDA_ERROR_OUT_OF_MEMORY
	Text string // the library's description
}

func (e *CallError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// DriverError is a failed call of the driver. Its code is a CUresult.
type DriverError struct{ CallError }

// Codes of CUresult.
const (
	CodeInvalidValue   = 1
	CodeOutOfMemory    = 2
	CodeNotInitialized = 3
	CodeUnavailable    = 46
	CodeNoDevice       = 100
	CodeInvalidDevice  = 101
	CodeECC            = 214
	CodeNVLink         = 220
	CodeNotFound       = 500
	CodeNotReady       = 600
	CodeIllegalAddress = 700
	CodePeerEnabled    = 704
	CodeLaunchFailed   = 719
	CodeCaptureUnsupp  = 900
	CodeCaptureInvalid = 901
)

// sticky are the codes after which the context is lost, with their names.
var sticky = map[int]string{
	CodeECC:            "CUDA_ERROR_ECC_UNCORRECTABLE",
	CodeNVLink:         "CUDA_ERROR_NVLINK_UNCORRECTABLE",
	226:                "CUDA_ERROR_CONTAINED",
	CodeIllegalAddress: "CUDA_ERROR_ILLEGAL_ADDRESS",
	702:                "CUDA_ERROR_LAUNCH_TIMEOUT",
	709:                "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	710:                "CUDA_ERROR_ASSERT",
	714:                "CUDA_ERROR_HARDWARE_STACK_ERROR",
	715:                "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	716:                "CUDA_ERROR_MISALIGNED_ADDRESS",
	717:                "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	718:                "CUDA_ERROR_INVALID_PC",
	CodeLaunchFailed:   "CUDA_ERROR_LAUNCH_FAILED",
	999:                "CUDA_ERROR_UNKNOWN",
}

// NewDriverError returns an error for a code. The driver replaces its name.
func NewDriverError(call string, code int) *DriverError {
	name := sticky[code]
	switch {
	case code == CodeOutOfMemory:
		name = "CUDA_ERROR_OUT_OF_MEMORY"
	case name == "":
		name = "CUDA_ERROR"
	}
	return &DriverError{CallError{Call: call, Code: code, Name: name}}
}

// Sticky reports whether the context is lost. All later calls of this process fail too, so a new process is
// required.
func (e *DriverError) Sticky() bool { return sticky[e.Code] != "" }

// OutOfMemory reports whether an allocation failed for lack of memory.
func (e *DriverError) OutOfMemory() bool { return e.Code == CodeOutOfMemory }

// Sticky reports whether err wraps an error after which the context is lost.
func Sticky(err error) bool {
	var e *DriverError
	return errors.As(err, &e) && e.Sticky()
}

// OutOfMemory reports whether err wraps a failed allocation.
func OutOfMemory(err error) bool {
	var e *DriverError
	return errors.As(err, &e) && e.OutOfMemory()
}

// Busy reports whether the device is in use by another process: its memory is occupied, or it is in
// exclusive mode.
func Busy(err error) bool {
	var e *DriverError
	return errors.As(err, &e) && (e.OutOfMemory() || e.Code == CodeUnavailable)
}

// NCCLError is a failed call of NCCL. Its code is an ncclResult_t.
type NCCLError struct{ CallError }

// Codes of ncclResult_t.
const (
	NCCLSuccess         = 0
	NCCLCudaError       = 1
	NCCLInvalidArgument = 4
	NCCLInvalidUsage    = 5
	NCCLInProgress      = 7
)

var ncclNames = []string{
	"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument",
	"ncclInvalidUsage", "ncclRemoteError", "ncclInProgress",
}

// NewNCCLError returns an error for a code.
func NewNCCLError(call string, code int) *NCCLError {
	name := "ncclResult"
	if code >= 0 && code < len(ncclNames) {
		name = ncclNames[code]
	}
	return &NCCLError{CallError{Call: call, Code: code, Name: name}}
}

// BLASError is a failed call of cuBLASLt. Its code is a cublasStatus_t.
type BLASError struct{ CallError }

// Codes of cublasStatus_t.
const (
	StatusAllocFailed  = 3
	StatusInvalidValue = 7
	StatusArchMismatch = 8
	StatusExecution    = 13
	StatusInternal     = 14
	StatusNotSupported = 15
)

var statusNames = map[int]string{
	1:                  "CUBLAS_STATUS_NOT_INITIALIZED",
	StatusAllocFailed:  "CUBLAS_STATUS_ALLOC_FAILED",
	StatusInvalidValue: "CUBLAS_STATUS_INVALID_VALUE",
	StatusArchMismatch: "CUBLAS_STATUS_ARCH_MISMATCH",
	StatusExecution:    "CUBLAS_STATUS_EXECUTION_FAILED",
	StatusInternal:     "CUBLAS_STATUS_INTERNAL_ERROR",
	StatusNotSupported: "CUBLAS_STATUS_NOT_SUPPORTED",
}

// NewBLASError returns an error for a code.
func NewBLASError(call string, code int) *BLASError {
	name := statusNames[code]
	if name == "" {
		name = "CUBLAS_STATUS"
	}
	return &BLASError{CallError{Call: call, Code: code, Name: name}}
}

// Unsupported reports whether no kernel exists for the problem on this device.
func (e *BLASError) Unsupported() bool {
	switch e.Code {
	case StatusNotSupported, StatusArchMismatch, StatusInvalidValue:
		return true
	}
	return false
}
