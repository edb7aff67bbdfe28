package cuda

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"aicplan/cudaops/dl"
)

// Compiler compiles CUDA C++ source text.
type Compiler interface {
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

const codeCompilation = 6

// CompilerLibrary implements Compiler with the real library. It is safe for concurrent use, but compiles only one
// program at a time.
type CompilerLibrary struct {
	lib *dl.Library
	mu  sync.Mutex
	fn  struct {
		version, errorString, create, destroy, compile      uintptr
		cubinSize, cubin, ptxSize, ptx, logSize, programLog uintptr
	}
}

var _ Compiler = (*CompilerLibrary)(nil)

// OpenCompiler opens the library. It does not need a device.
func OpenCompiler(driverVersion int) (*CompilerLibrary, error) {
	lib, err := dl.Open(CompilerSpec(driverVersion))
	if err != nil {
		return nil, err
	}

	l := &CompilerLibrary{lib: lib}
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
func (l *CompilerLibrary) Path() string { return l.lib.Path }

// Version implements Compiler.
func (l *CompilerLibrary) Version() (major, minor int) {
	var a, b int32
	dl.Call(l.fn.version, uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&b)))
	return int(a), int(b)
}

//go:uintptrescapes
func (l *CompilerLibrary) call(name string, fn uintptr, args ...uintptr) error {
	code := int(int32(dl.Call(fn, args...)))
	if code == 0 {
		return nil
	}
	return &CallError{Call: name, Code: code, Name: dl.GoString(dl.CallPointer(l.fn.errorString, uintptr(code)))}
}

// Compile implements Compiler.
func (l *CompilerLibrary) Compile(p Program) ([]byte, error) {
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
		if e, ok := err.(*CallError); ok && e.Code == codeCompilation && logErr == nil {
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
func (l *CompilerLibrary) text(prog uintptr, name string, size, get uintptr) ([]byte, error) {
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
