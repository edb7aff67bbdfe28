package driver

import (
	"errors"
	"fmt"
)

// Codes of CUresult that are treated by name.
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
	Text string // the driver's own sentence
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Sticky says that the context is lost: every later call of this process fails
// too, and only a new process can go on.
func (e *Error) Sticky() bool {
	switch e.Code {
	case CodeECC, CodeNVLink, CodeContained, CodeIllegalAddress, CodeLaunchTimeout, CodeContextDestroyed, CodeAssert, CodeHardwareStack,
		CodeIllegalInstr, CodeMisaligned, CodeInvalidSpace, CodeInvalidPC, CodeLaunchFailed, CodeUnknown:
		return true
	}
	return false
}

// OutOfMemory says that an allocation did not fit.
func (e *Error) OutOfMemory() bool { return e.Code == CodeOutOfMemory }

// Sticky says whether err holds an error after which the context is lost.
func Sticky(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Sticky()
}

// OutOfMemory says whether err holds a failed allocation.
func OutOfMemory(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.OutOfMemory()
}

// Busy says whether err means that the device is somebody else's for now: its
// memory is taken, or it is in exclusive mode and has a process.
func Busy(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.OutOfMemory() || e.Code == CodeUnavailable)
}

// CaptureFailed says whether err means that work could not be captured into a
// graph, while the context is still good.
func CaptureFailed(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code >= 900 && e.Code <= 909
}

// Code names of the driver, for when the driver itself cannot be asked.
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

// NewError makes an error from a code, with the name that the driver uses for
// it where this program knows it.
func NewError(call string, code int) *Error {
	name, ok := codeNames[code]
	if !ok {
		name = "CUDA_ERROR"
	}
	return &Error{Call: call, Code: code, Name: name}
}
