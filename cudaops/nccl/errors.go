package nccl

import (
	"fmt"
)

// Codes of ncclResult_t.
const (
	CodeSuccess            = 0
	CodeUnhandledCudaError = 1
	CodeSystemError        = 2
	CodeInternalError      = 3
	CodeInvalidArgument    = 4
	CodeInvalidUsage       = 5
	CodeRemoteError        = 6
	CodeInProgress         = 7
)

var codeNames = map[int]string{
	CodeUnhandledCudaError: "ncclUnhandledCudaError",
	CodeSystemError:        "ncclSystemError",
	CodeInternalError:      "ncclInternalError",
	CodeInvalidArgument:    "ncclInvalidArgument",
	CodeInvalidUsage:       "ncclInvalidUsage",
	CodeRemoteError:        "ncclRemoteError",
	CodeInProgress:         "ncclInProgress",
}

// Error is a failed call of NCCL.
type Error struct {
	Call string // ncclAllReduce
	Code int    // ncclResult_t
	Name string // ncclUnhandledCudaError
	Text string // the library's description of the code
	Last string // the library's last error message, or ""
}

func (e *Error) Error() string {
	msg := fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	if e.Text != "" {
		msg += ": " + e.Text
	}

	if e.Last != "" {
		msg += ": " + e.Last
	}
	return msg
}

// NewError returns an error for a code.
func NewError(call string, code int) *Error {
	name, ok := codeNames[code]
	if !ok {
		name = "ncclResult"
	}
	return &Error{Call: call, Code: code, Name: name}
}
