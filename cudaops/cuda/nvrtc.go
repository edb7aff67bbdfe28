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
	library
	compilerTable
	mu sync.Mutex
}

type compilerTable struct {
	nvrtcVersion, nvrtcGetErrorString, nvrtcCreateProgram       dl.Symbol
	nvrtcDestroyProgram, nvrtcCompileProgram, nvrtcGetCUBINSize dl.Symbol
	nvrtcGetCUBIN, nvrtcGetPTXSize, nvrtcGetPTX                 dl.Symbol
	nvrtcGetProgramLogSize, nvrtcGetProgramLog                  dl.Symbol
}

// OpenCompiler opens the library. It does not need a device.
func OpenCompiler(driverVersion int) (*CompilerLibrary, error) {
	l := new(CompilerLibrary)
	return l, l.open(CompilerSpec(driverVersion), &l.compilerTable)
}

// Version implements Compiler.
func (l *CompilerLibrary) Version() (major, minor int) {
	var a, b int32
	dl.Call(l.nvrtcVersion.At, uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&b)))
	return int(a), int(b)
}

//go:uintptrescapes
func (l *CompilerLibrary) call(f dl.Symbol, args ...uintptr) error {
	code := int(int32(dl.Call(f.At, args...)))
	if code == 0 {
		return nil
	}
	return &CallError{Call: f.Name, Code: code, Name: dl.GoString(dl.CallPointer(l.nvrtcGetErrorString.At, uintptr(code)))}
}

// Compile implements Compiler.
func (l *CompilerLibrary) Compile(p Program) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	src, name := append([]byte(p.Source), 0), append([]byte(p.Name), 0)
	var prog uintptr
	err := l.call(l.nvrtcCreateProgram, uintptr(unsafe.Pointer(&prog)),
		uintptr(unsafe.Pointer(&src[0])), uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)

	if err != nil {
		return nil, err
	}
	defer func() { dl.Call(l.nvrtcDestroyProgram.At, uintptr(unsafe.Pointer(&prog))) }()

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
	err = l.call(l.nvrtcCompileProgram, prog, uintptr(len(opts)), uintptr(unsafe.Pointer(&ptrs[0])))
	if err != nil {
		log, logErr := l.text(prog, l.nvrtcGetProgramLogSize, l.nvrtcGetProgramLog)
		if e, ok := err.(*CallError); ok && e.Code == codeCompilation && logErr == nil {
			return nil, &CompileError{Name: p.Name, Log: strings.TrimRight(string(log), "\x00")}
		}
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}

	if p.PTX {
		return l.text(prog, l.nvrtcGetPTXSize, l.nvrtcGetPTX)
	}

	return l.text(prog, l.nvrtcGetCUBINSize, l.nvrtcGetCUBIN)
}

// text returns one of a program's outputs.
func (l *CompilerLibrary) text(prog uintptr, size, get dl.Symbol) ([]byte, error) {
	var n uint64
	if err := l.call(size, prog, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}

	if n == 0 {
		return nil, fmt.Errorf("%s: the compiler produced nothing", get.Name)
	}

	b := make([]byte, n)
	if err := l.call(get, prog, uintptr(unsafe.Pointer(&b[0]))); err != nil {
		return nil, err
	}

	return b, nil
}
