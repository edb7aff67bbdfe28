// Package nvrtc compiles CUDA C++ at run time.
package nvrtc

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"aicplan/cudaops/dl"
)

// API compiles CUDA C++ source text.
type API interface {
	// Compile returns a cubin for the architecture (90 means sm_90). If the program does not compile, the
	// error is a *CompileError with the compiler's log.
	Compile(p Program) ([]byte, error)
	// Version returns the compiler's version, for example 13.0.
	Version() (major, minor int)
}

// Program is one translation unit.
type Program struct {
	Name    string // file name in the log
	Source  string
	SM      int      // compute capability as one number
	Options []string // additional compiler options, such as -DWIDTH=128
	// PTX requests PTX text instead of machine code.
	PTX bool
}

// CompileError contains the compiler's log.
type CompileError struct {
	Name string
	Log  string
}

func (e *CompileError) Error() string {
	return fmt.Sprintf("%s does not compile:\n%s", e.Name, strings.TrimSpace(e.Log))
}

// Error is a failed call that is not caused by the program.
type Error struct {
	Call string
	Code int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code) }

const codeCompilation = 6

// Spec describes the library. The newest version that the driver supports comes first.
func Spec(driverVersion int) dl.Spec {
	s := dl.Spec{
		Name:     "NVRTC",
		Packages: []string{"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"},
		Siblings: []string{"libnvrtc-builtins.so.[0-9]*"},
		Hint:     "it is part of the CUDA toolkit and of the Python package nvidia-cuda-nvrtc; AICPLAN_LIBRARY_PATH may name its folder",
	}

	for _, major := range []int{13, 12} {
		if driverVersion == 0 || driverVersion/1000 >= major {
			s.Sonames = append(s.Sonames, fmt.Sprintf("libnvrtc.so.%d", major))
		}
	}

	return s
}

// Library implements API with the real library. It is safe for concurrent use, but compiles only one
// program at a time.
type Library struct {
	lib *dl.Library
	mu  sync.Mutex
	fn  struct {
		version, errorString, create, destroy, compile      uintptr
		cubinSize, cubin, ptxSize, ptx, logSize, programLog uintptr
	}
}

var _ API = (*Library)(nil)

// Open opens the library. It does not need a device.
func Open(driverVersion int) (*Library, error) {
	lib, err := dl.Open(Spec(driverVersion))
	if err != nil {
		return nil, err
	}

	l := &Library{lib: lib}
	f := &l.fn
	err = lib.Bind(map[string]*uintptr{
		"nvrtcVersion": &f.version, "nvrtcGetErrorString": &f.errorString,
		"nvrtcCreateProgram": &f.create, "nvrtcDestroyProgram": &f.destroy, "nvrtcCompileProgram": &f.compile,
		"nvrtcGetCUBINSize": &f.cubinSize, "nvrtcGetCUBIN": &f.cubin,
		"nvrtcGetPTXSize": &f.ptxSize, "nvrtcGetPTX": &f.ptx,
		"nvrtcGetProgramLogSize": &f.logSize, "nvrtcGetProgramLog": &f.programLog,
	})

	if err != nil {
		return nil, err
	}

	return l, nil
}

// Path returns the file of the library.
func (l *Library) Path() string { return l.lib.Path }

// Version implements API.
func (l *Library) Version() (major, minor int) {
	var a, b int32
	dl.Call(l.fn.version, uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&b)))
	return int(a), int(b)
}

//go:uintptrescapes
func (l *Library) call(name string, fn uintptr, args ...uintptr) error {
	code := int(int32(dl.Call(fn, args...)))
	if code == 0 {
		return nil
	}
	return &Error{Call: name, Code: code, Text: dl.GoString(dl.CallPointer(l.fn.errorString, uintptr(code)))}
}

// Compile implements API.
func (l *Library) Compile(p Program) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	src, name := append([]byte(p.Source), 0), append([]byte(p.Name), 0)
	var prog uintptr
	err := l.call("nvrtcCreateProgram", l.fn.create, uintptr(unsafe.Pointer(&prog)),
		uintptr(unsafe.Pointer(&src[0])), uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)

	if err != nil {
		return nil, err
	}
	defer func() { dl.Call(l.fn.destroy, uintptr(unsafe.Pointer(&prog))) }()

	arch := fmt.Sprintf("--gpu-architecture=sm_%d", p.SM)
	if p.PTX {
		arch = fmt.Sprintf("--gpu-architecture=compute_%d", p.SM)
	}

	opts := append([]string{arch, "--std=c++17"}, p.Options...)
	var pin runtime.Pinner
	defer pin.Unpin()
	ptrs := make([]unsafe.Pointer, len(opts))

	for i, o := range opts {
		b := append([]byte(o), 0)
		pin.Pin(&b[0])
		ptrs[i] = unsafe.Pointer(&b[0])
	}

	pin.Pin(&ptrs[0])
	err = l.call("nvrtcCompileProgram", l.fn.compile, prog, uintptr(len(opts)), uintptr(unsafe.Pointer(&ptrs[0])))
	if err != nil {
		log, logErr := l.text(prog, "nvrtcGetProgramLog", l.fn.logSize, l.fn.programLog)
		if e, ok := err.(*Error); ok && e.Code == codeCompilation && logErr == nil {
			return nil, &CompileError{Name: p.Name, Log: strings.TrimRight(string(log), "\x00")}
		}
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}

	if p.PTX {
		return l.text(prog, "nvrtcGetPTX", l.fn.ptxSize, l.fn.ptx)
	}

	return l.text(prog, "nvrtcGetCUBIN", l.fn.cubinSize, l.fn.cubin)
}

// text returns one of a program's outputs.
func (l *Library) text(prog uintptr, name string, size, get uintptr) ([]byte, error) {
	var n uint64
	if err := l.call(name+"Size", size, prog, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}

	if n == 0 {
		return nil, fmt.Errorf("%s: the compiler produced nothing", name)
	}

	b := make([]byte, n)
	if err := l.call(name, get, prog, uintptr(unsafe.Pointer(&b[0]))); err != nil {
		return nil, err
	}

	return b, nil
}
