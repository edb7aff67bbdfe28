package cublaslt

import (
	"fmt"
	"sync"
	"unsafe"

	"aicplan/cudaops/dl"
)

// Spec describes the library. The newest version that the driver supports comes first.
func Spec(driverVersion int) dl.Spec {
	s := dl.Spec{
		Name:     "cuBLASLt",
		Packages: []string{"nvidia/cu13/lib", "nvidia/cublas/lib"},
		Global:   true,
		Hint:     "it is part of the CUDA toolkit and of the Python package nvidia-cublas; AICPLAN_LIBRARY_PATH may name its folder",
	}

	for _, major := range []int{13, 12} {
		if driverVersion == 0 || driverVersion/1000 >= major {
			s.Sonames = append(s.Sonames, fmt.Sprintf("libcublasLt.so.%d", major))
		}
	}

	return s
}

// Library implements API with the real library. It is safe for concurrent use.
type Library struct {
	lib    *dl.Library
	fn     table
	handle uintptr
	mu     sync.Mutex // protects pref and prefWS
	pref   uintptr
	prefWS int64
}

var _ API = (*Library)(nil)

type table struct {
	create, destroy, version, statusString            uintptr
	descCreate, descSet, descDestroy                  uintptr
	layoutCreate, layoutSet, layoutDestroy            uintptr
	prefCreate, prefSet, heuristic, configGet, matmul uintptr
}

// Load opens the library without using a device. Only Version and Path may be called.
func Load(driverVersion int) (*Library, error) {
	lib, err := dl.Open(Spec(driverVersion))
	if err != nil {
		return nil, err
	}

	l := &Library{lib: lib}
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

// Open opens the library and creates a handle for the current context.
func Open(driverVersion int) (*Library, error) {
	l, err := Load(driverVersion)
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

// Version implements API.
func (l *Library) Version() int { return int(dl.Call(l.fn.version)) }

// Path returns the file of the library.
func (l *Library) Path() string { return l.lib.Path }

//go:uintptrescapes
func (l *Library) call(name string, fn uintptr, args ...uintptr) error {
	code := int(int32(dl.Call(fn, args...)))
	if code == 0 {
		return nil
	}

	e := &Error{Call: name, Code: code}
	if p := dl.CallPointer(l.fn.statusString, uintptr(code)); p != nil {
		e.Text = dl.GoString(p)
	}
	return e
}
