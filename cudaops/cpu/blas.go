package cpu

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"aicplan/cudaops/dl"
)

// openBLAS describes the library. The last name is that of the copy of numpy.
var openBLAS = dl.Spec{
	Name:     "OpenBLAS",
	Sonames:  []string{"libopenblas.so.0", "libscipy_openblas*.so"},
	Packages: []string{"numpy.libs"},
}

// blas is an OpenBLAS that was loaded at run time. Its functions use the calling thread only.
type blas struct {
	version string // such as 0.3.21
	about   string // the library's own description, which contains the kernels it selected
	sgemm   uintptr
	dgemm   uintptr
}

// systemBLAS loads the OpenBLAS of this machine and checks its products. The error describes what was found.
var systemBLAS = sync.OnceValues(func() (*blas, error) {
	lib, err := dl.Open(openBLAS)
	if err != nil {
		return nil, err
	}

	b, err := bindBLAS(lib)
	if err == nil {
		err = b.check()
	}
	return b, err
})

// bindBLAS looks up the functions of a library. Copies of OpenBLAS that come with Python packages have a
// prefix and, if their integers have 64 bits, a suffix.
func bindBLAS(lib *dl.Library) (*blas, error) {
	names := [][4]string{
		{"sgemm_", "dgemm_", "openblas_get_config", "openblas_set_num_threads"},
		{"scipy_sgemm_64_", "scipy_dgemm_64_", "scipy_openblas_get_config64_", "scipy_openblas_set_num_threads64_"},
		{"scipy_sgemm_", "scipy_dgemm_", "scipy_openblas_get_config", "scipy_openblas_set_num_threads"},
	}
	for _, n := range names {
		var found [4]dl.Symbol
		var errs [4]error
		for i := range n {
			found[i], errs[i] = lib.Symbol(n[i])
		}
		if errors.Join(errs[:]...) != nil {
			continue
		}

		b := &blas{sgemm: found[0].At, dgemm: found[1].At}
		b.about = strings.TrimSpace(dl.GoString(dl.CallPointer(found[2].At)))
		if fields := strings.Fields(b.about); len(fields) > 1 { // "OpenBLAS 0.3.21 DYNAMIC_ARCH ..."
			b.version = fields[1]
		}

		dl.Call(found[3].At, 1)
		return b, nil
	}
	return nil, fmt.Errorf("%s is no OpenBLAS", lib.Path)
}

// check compares a product of each type with one that is computed here. Builds of BLAS libraries that do
// not know the processor have returned wrong products.
func (b *blas) check() error {
	const m, n, k = 37, 29, 53
	x32, w32, y32 := make([]float32, m*k), make([]float32, n*k), make([]float32, m*n)
	x64, w64, y64 := make([]float64, m*k), make([]float64, n*k), make([]float64, m*n)
	for i := range x64 {
		x64[i] = float64(i%7 - 3)
		x32[i] = float32(x64[i])
	}
	for i := range w64 {
		w64[i] = float64(i%5 - 2)
		w32[i] = float32(w64[i])
	}

	part(b.sgemm, m, n, k, 0, 1, x32, w32, y32)()
	part(b.dgemm, m, n, k, 0, 1, x64, w64, y64)()

	for i := range m {
		for j := range n {
			want := 0.0
			for l := range k {
				want += x64[i*k+l] * w64[j*k+l]
			}
			// The factors are small integers, so that the products are exact.
			if at := i*n + j; y64[at] != want || float64(y32[at]) != want {
				return fmt.Errorf("element %d,%d of a product is %g in float64 and %g in float32 and should be %g",
					i, j, y64[at], y32[at], want)
			}
		}
	}

	return nil
}

// routine is the code that computes a product.
type routine struct {
	source  string  // the name in rows
	address uintptr // in the library; 0 means gonum
}

// routine returns Sgemm or Dgemm. The library may be nil.
func (b *blas) routine(name string) routine {
	switch {
	case b == nil:
		return routine{source: "gonum." + name}
	case name == "Sgemm":
		return routine{"openblas." + name, b.sgemm}
	}
	return routine{"openblas." + name, b.dgemm}
}

// part returns the work of one thread of y = x W^T, with x of m x k and W of n x k, all by rows. It computes
// a share of the rows or columns, whichever are more.
//
// The Fortran interface takes pointers only and has the same parameters in all libraries. It reads matrices
// by columns, so that it computes y^T = W x^T. Integers are passed as 64 bits: a library that reads 32 bits
// of them gets the same value on a little-endian machine.
func part[T float32 | float64](gemm uintptr, m, n, k, thread, threads int, x, w, y []T) func() {
	type arguments struct {
		transposed, plain byte
		m, n, k, stride   int64
		alpha, beta       T
	}
	a := &arguments{transposed: 'T', plain: 'N', m: int64(m), n: int64(n), k: int64(k), stride: int64(n), alpha: 1}

	longer := max(m, n)
	lo, hi := longer*thread/threads, longer*(thread+1)/threads
	switch {
	case lo == hi:
		return func() {}
	case m >= n:
		a.m, x, y = int64(hi-lo), x[lo*k:], y[lo*n:]
	default:
		a.n, w, y = int64(hi-lo), w[lo*k:], y[lo:]
	}

	return func() {
		dl.Call(gemm,
			uintptr(unsafe.Pointer(&a.transposed)), uintptr(unsafe.Pointer(&a.plain)),
			uintptr(unsafe.Pointer(&a.n)), uintptr(unsafe.Pointer(&a.m)), uintptr(unsafe.Pointer(&a.k)),
			uintptr(unsafe.Pointer(&a.alpha)), uintptr(unsafe.Pointer(&w[0])), uintptr(unsafe.Pointer(&a.k)),
			uintptr(unsafe.Pointer(&x[0])), uintptr(unsafe.Pointer(&a.k)),
			uintptr(unsafe.Pointer(&a.beta)), uintptr(unsafe.Pointer(&y[0])), uintptr(unsafe.Pointer(&a.stride)),
			1, 1) // lengths of the texts
	}
}
