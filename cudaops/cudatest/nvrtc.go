package cudatest

import (
	"strings"

	"aicplan/cudaops/nvrtc"
)

// RTC is a fake nvrtc.API that records the compiled programs.
type RTC struct{ Programs []nvrtc.Program }

// Version implements nvrtc.API.
func (r *RTC) Version() (major, minor int) { return 13, 0 }

// Compile implements nvrtc.API.
func (r *RTC) Compile(p nvrtc.Program) ([]byte, error) {
	r.Programs = append(r.Programs, p)
	if strings.Contains(p.Source, "#error") {
		return nil, &nvrtc.CompileError{Name: p.Name, Log: p.Name + "(1): error: #error directive"}
	}
	return []byte("cubin"), nil
}
