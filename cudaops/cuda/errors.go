package cuda

import (
	"errors"
	"fmt"
	"slices"
)

// CallError is a failed call of a library.
type CallError struct {
	Call string // cuMemAlloc_v2
	Code int
	Name string // the library's name of the code, such as CUDA_ERROR_OUT_OF_MEMORY
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
	CodeUnavailable    = 46
	CodeECC            = 214
	CodeNVLink         = 220
	CodeNotReady       = 600
	CodeIllegalAddress = 700
	CodePeerEnabled    = 704
	CodeLaunchFailed   = 719
)

// sticky are the codes after which the context is lost: uncorrectable errors of memory and links, contained errors,
// illegal addresses, timeouts, destroyed contexts, assertions, errors of the stack, instructions, alignments, address
// spaces and program counters, failed launches and unknown errors.
var sticky = []int{
	CodeECC, CodeNVLink, 226, CodeIllegalAddress, 702, 709, 710, 714, 715, 716, 717, 718, CodeLaunchFailed, 999,
}

// NewDriverError returns an error for a code. The driver replaces its name.
func NewDriverError(call string, code int) *DriverError {
	return &DriverError{CallError{Call: call, Code: code, Name: "CUDA_ERROR"}}
}

// Sticky reports whether err wraps an error after which the context is lost. All later calls of this process fail
// too, so a new process is required.
func Sticky(err error) bool { return hasCode(err, sticky...) }

// OutOfMemory reports whether err wraps a failed allocation.
func OutOfMemory(err error) bool { return hasCode(err, CodeOutOfMemory) }

// Busy reports whether the device is in use by another process: its memory is occupied, or it is in
// exclusive mode.
func Busy(err error) bool { return hasCode(err, CodeOutOfMemory, CodeUnavailable) }

func hasCode(err error, codes ...int) bool {
	e, ok := errors.AsType[*DriverError](err)
	return ok && slices.Contains(codes, e.Code)
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

// Unsupported reports whether err wraps an error of cuBLASLt that no kernel exists for the problem on this device.
func Unsupported(err error) bool {
	e, ok := errors.AsType[*BLASError](err)
	return ok && slices.Contains([]int{StatusNotSupported, StatusArchMismatch, StatusInvalidValue}, e.Code)
}
