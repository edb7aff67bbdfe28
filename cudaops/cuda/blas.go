package cuda

import (
	"fmt"
	"sync"
	"unsafe"

	"aicplan/cudaops/dl"
)

// BLASLibrary implements BLAS with the real library. It is safe for concurrent use.
type BLASLibrary struct {
	lib    *dl.Library
	fn     blasTable
	handle uintptr
	mu     sync.Mutex // protects pref and prefWS
	pref   uintptr
	prefWS int64
}

var _ BLAS = (*BLASLibrary)(nil)

type blasTable struct {
	create, destroy, version, statusString            uintptr
	descCreate, descSet, descDestroy                  uintptr
	layoutCreate, layoutSet, layoutDestroy            uintptr
	prefCreate, prefSet, heuristic, configGet, matmul uintptr
}

// LoadBLAS opens the library without using a device. Only Version and Path may be called.
func LoadBLAS(driverVersion int) (*BLASLibrary, error) {
	lib, err := dl.Open(BLASSpec(driverVersion))
	if err != nil {
		return nil, err
	}

	l := &BLASLibrary{lib: lib}
	f := &l.fn
	err = lib.Bind(map[string]*uintptr{
		"cublasLtCreate": &f.create, "cublasLtDestroy": &f.destroy,
		"cublasLtGetVersion": &f.version, "cublasLtGetStatusString": &f.statusString,
		"cublasLtMatmulDescCreate": &f.descCreate, "cublasLtMatmulDescSetAttribute": &f.descSet,
		"cublasLtMatmulDescDestroy":  &f.descDestroy,
		"cublasLtMatrixLayoutCreate": &f.layoutCreate, "cublasLtMatrixLayoutSetAttribute": &f.layoutSet,
		"cublasLtMatrixLayoutDestroy":    &f.layoutDestroy,
		"cublasLtMatmulPreferenceCreate": &f.prefCreate, "cublasLtMatmulPreferenceSetAttribute": &f.prefSet,
		"cublasLtMatmulAlgoGetHeuristic":       &f.heuristic,
		"cublasLtMatmulAlgoConfigGetAttribute": &f.configGet,
		"cublasLtMatmul":                       &f.matmul,
	})

	if err != nil {
		return nil, err
	}

	return l, nil
}

// OpenBLAS opens the library and creates a handle for the current context.
func OpenBLAS(driverVersion int) (*BLASLibrary, error) {
	l, err := LoadBLAS(driverVersion)
	if err != nil {
		return nil, err
	}

	if err := l.call("cublasLtCreate", l.fn.create, uintptr(unsafe.Pointer(&l.handle))); err != nil {
		return nil, fmt.Errorf("%s (version %d): %w", l.lib.Path, l.Version(), err)
	}

	if err := l.call("cublasLtMatmulPreferenceCreate", l.fn.prefCreate, uintptr(unsafe.Pointer(&l.pref))); err != nil {
		return nil, err
	}
	return l, nil
}

// Version implements BLAS.
func (l *BLASLibrary) Version() int { return int(dl.Call(l.fn.version)) }

// Path returns the file of the library.
func (l *BLASLibrary) Path() string { return l.lib.Path }

//go:uintptrescapes
func (l *BLASLibrary) call(name string, fn uintptr, args ...uintptr) error {
	code := int(int32(dl.Call(fn, args...)))
	if code == 0 {
		return nil
	}

	e := NewBLASError(name, code)
	if p := dl.CallPointer(l.fn.statusString, uintptr(code)); p != nil {
		e.Text = dl.GoString(p)
	}
	return e
}
