package driver

import (
	"errors"
	"fmt"
)

// Codes of CUresult known by name.
const (
	CodeInvalidValue     = 1
	CodeOutOfMemory      = 2
	CodeNotInitialized   = 3
	CodeUnavailable      = 46
	CodeNoDevice         = 100
	CodeInvalidDevice    = 101
	CodeECC              = 214
	CodeInvalidPTX       = 218
	CodeNVLink           = 220
	CodeContained        = 226
	CodeNotFound         = 500
	CodeNotReady         = 600
	CodeIllegalAddress   = 700
	CodeLaunchResources  = 701
	CodeLaunchTimeout    = 702
	CodePeerEnabled      = 704
	CodeContextDestroyed = 709
	CodeAssert           = 710
	CodeHardwareStack    = 714
	CodeIllegalInstr     = 715
	CodeMisaligned       = 716
	CodeInvalidSpace     = 717
	CodeInvalidPC        = 718
	CodeLaunchFailed     = 719
	CodeCaptureUnsupp    = 900
	CodeCaptureInvalid   = 901
	CodeCaptureMerge     = 902
	CodeUnknown          = 999
)

// Error is a failed call of the driver.
type Error struct {
	Call string // cuMemAlloc_v2
	Code int    // CUresult
	Name string // CUDA_ERROR_OUT_OF_MEMORY
	Text string // the driver's description of the code
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Sticky reports whether the context is lost. All later calls of this process fail too, so a new process is
// required.
func (e *Error) Sticky() bool {
	switch e.Code {
	case CodeECC, CodeNVLink, CodeContained, CodeIllegalAddress, CodeLaunchTimeout, CodeContextDestroyed,
		CodeAssert, CodeHardwareStack,
		CodeIllegalInstr, CodeMisaligned, CodeInvalidSpace, CodeInvalidPC, CodeLaunchFailed, CodeUnknown:
		return true
	}
	return false
}

// OutOfMemory reports whether an allocation failed for lack of memory.
func (e *Error) OutOfMemory() bool { return e.Code == CodeOutOfMemory }

// Sticky reports whether err wraps an error after which the context is lost.
func Sticky(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Sticky()
}

// OutOfMemory reports whether err wraps a failed allocation.
func OutOfMemory(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.OutOfMemory()
}

// Busy reports whether the device is in use by another process: its memory is occupied, or it is in
// exclusive mode.
func Busy(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.OutOfMemory() || e.Code == CodeUnavailable)
}

// CaptureFailed reports whether err means that work could not be captured into a graph. The context remains
// usable.
func CaptureFailed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code >= 900 && e.Code <= 909
}

// codeNames are the driver's names of codes, used if the driver cannot be queried.
var codeNames = map[int]string{
	CodeInvalidValue:     "CUDA_ERROR_INVALID_VALUE",
	CodeOutOfMemory:      "CUDA_ERROR_OUT_OF_MEMORY",
	CodeNotInitialized:   "CUDA_ERROR_NOT_INITIALIZED",
	CodeUnavailable:      "CUDA_ERROR_DEVICE_UNAVAILABLE",
	CodeNoDevice:         "CUDA_ERROR_NO_DEVICE",
	CodeInvalidDevice:    "CUDA_ERROR_INVALID_DEVICE",
	CodeECC:              "CUDA_ERROR_ECC_UNCORRECTABLE",
	CodeInvalidPTX:       "CUDA_ERROR_INVALID_PTX",
	CodeNVLink:           "CUDA_ERROR_NVLINK_UNCORRECTABLE",
	CodeContained:        "CUDA_ERROR_CONTAINED",
	CodeNotFound:         "CUDA_ERROR_NOT_FOUND",
	CodeNotReady:         "CUDA_ERROR_NOT_READY",
	CodeIllegalAddress:   "CUDA_ERROR_ILLEGAL_ADDRESS",
	CodeLaunchResources:  "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
	CodeLaunchTimeout:    "CUDA_ERROR_LAUNCH_TIMEOUT",
	CodePeerEnabled:      "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	CodeContextDestroyed: "CUDA_ERROR_CONTEXT_IS_DESTROYED",
	CodeAssert:           "CUDA_ERROR_ASSERT",
	CodeHardwareStack:    "CUDA_ERROR_HARDWARE_STACK_ERROR",
	CodeIllegalInstr:     "CUDA_ERROR_ILLEGAL_INSTRUCTION",
	CodeMisaligned:       "CUDA_ERROR_MISALIGNED_ADDRESS",
	CodeInvalidSpace:     "CUDA_ERROR_INVALID_ADDRESS_SPACE",
	CodeInvalidPC:        "CUDA_ERROR_INVALID_PC",
	CodeLaunchFailed:     "CUDA_ERROR_LAUNCH_FAILED",
	CodeCaptureUnsupp:    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	CodeCaptureInvalid:   "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	CodeCaptureMerge:     "CUDA_ERROR_STREAM_CAPTURE_MERGE",
	CodeUnknown:          "CUDA_ERROR_UNKNOWN",
}

// NewError returns an error for a code. Its name is that of the driver if known.
func NewError(call string, code int) *Error {
	name, ok := codeNames[code]
	if !ok {
		name = "CUDA_ERROR"
	}
	return &Error{Call: call, Code: code, Name: name}
}
