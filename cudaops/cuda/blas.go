package cuda

import (
	"fmt"
	"unsafe"

	"aicplan/cudaops/dl"
)

// BLASLibrary implements BLAS with the real library. It is safe for concurrent use.
type BLASLibrary struct {
	library
	blasTable
	handle uintptr
	pref   uintptr
}

type blasTable struct {
	cublasLtCreate, cublasLtGetVersion                                                                dl.Symbol
	cublasLtGetStatusName, cublasLtGetStatusString                                                    dl.Symbol
	cublasLtMatmulDescCreate, cublasLtMatmulDescSetAttribute                                          dl.Symbol
	cublasLtMatmulDescDestroy, cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutSetAttribute           dl.Symbol
	cublasLtMatrixLayoutDestroy, cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceSetAttribute dl.Symbol
	cublasLtMatmulAlgoGetHeuristic, cublasLtMatmulAlgoConfigGetAttribute, cublasLtMatmul              dl.Symbol
}

// LoadBLAS opens the library without using a device. Only Version and Path may be called.
func LoadBLAS(driverVersion int) (*BLASLibrary, error) {
	l := new(BLASLibrary)
	return l, l.open(BLASSpec(driverVersion), &l.blasTable)
}

// OpenBLAS opens the library and creates a handle for the current context.
func OpenBLAS(driverVersion int) (*BLASLibrary, error) {
	l, err := LoadBLAS(driverVersion)
	if err != nil {
		return nil, err
	}

	if err := l.call(l.cublasLtCreate, uintptr(unsafe.Pointer(&l.handle))); err != nil {
		return nil, fmt.Errorf("%s (version %d): %w", l.Path(), l.Version(), err)
	}

	if err := l.call(l.cublasLtMatmulPreferenceCreate, uintptr(unsafe.Pointer(&l.pref))); err != nil {
		return nil, err
	}

	bytes := uint64(Workspace)
	if err := l.call(l.cublasLtMatmulPreferenceSetAttribute, l.pref, prefWorkspace, uintptr(unsafe.Pointer(&bytes)),
		8); err != nil {
		return nil, err
	}
	return l, nil
}

// Version implements BLAS.
func (l *BLASLibrary) Version() int { return int(dl.Call(l.cublasLtGetVersion.At)) }

//go:uintptrescapes
func (l *BLASLibrary) call(f dl.Symbol, args ...uintptr) error {
	code := int(int32(dl.Call(f.At, args...)))
	if code == 0 {
		return nil
	}

	return &BLASError{CallError{Call: f.Name, Code: code,
		Name: dl.GoString(dl.CallPointer(l.cublasLtGetStatusName.At, uintptr(code))),
		Text: dl.GoString(dl.CallPointer(l.cublasLtGetStatusString.At, uintptr(code)))}}
}
