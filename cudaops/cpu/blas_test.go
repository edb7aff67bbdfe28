package cpu

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ebitengine/purego"

	"aicplan/cudaops/dl"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// installedBLAS returns the library of this machine. Tests are skipped if there is none.
func installedBLAS(t *testing.T) *blas {
	t.Helper()
	b, err := systemBLAS()
	if dl.IsNotFound(err) {
		t.Skipf("no BLAS on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestInstalledBLASMultipliesOnAnyNumberOfThreads compares the library with sums that are computed here.
func TestInstalledBLASMultipliesOnAnyNumberOfThreads(t *testing.T) {
	b := installedBLAS(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		m, n, k, threads := 1+rng.IntN(90), 1+rng.IntN(90), 1+rng.IntN(120), 1+rng.IntN(4)
		e := &env{settings: quickSettings(), clock: measure.NewSystemClock(), blas: b}
		for _, dtype := range []string{"float32", "float64"} {
			kern, err := gemmKernel(e, dtype, m, n, k, threads)
			if err != nil {
				t.Fatal(err)
			}
			kern.run()

			at, eps := func(i int) float64 { return e.f64.mem[i] }, 1e-12
			if dtype == "float32" {
				at, eps = func(i int) float64 { return float64(e.f32.mem[i]) }, 1e-4
			}
			for i := range m * n {
				want := 0.0
				for l := range k {
					want += at(i/n*k+l) * at(m*k+i%n*k+l)
				}
				if got := at(m*k + n*k + i); !(math.Abs(got-want) <= eps*float64(k)) {
					t.Fatalf("%s %dx%dx%d, %d threads: element %d is %v, want %v", dtype, m, n, k, threads, i, got, want)
				}
			}
		}
	}
}

func TestRowsNameTheBLAS(t *testing.T) {
	installedBLAS(t)
	h := newHost(t, nil)
	hello, err := h.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	shape := worker.Case{Op: "gemm", Params: json.RawMessage(`{"gemm_dtype":"float32","m":32,"n":16,"k":8}`)}
	rows, err := h.run(t.Context(), shape)
	if err != nil || rows[0]["kernel_source"] != "openblas.Sgemm" {
		t.Errorf("%v, %v", rows, err)
	}
	if !strings.HasPrefix(hello.Version, "openblas-") || !strings.HasPrefix(hello.Env["blas"], "OpenBLAS ") {
		t.Errorf("version %q, blas %q", hello.Version, hello.Env["blas"])
	}
}

// TestWrongProductsAreDetected uses a library that leaves the result as it is.
func TestWrongProductsAreDetected(t *testing.T) {
	idle := purego.NewCallback(func() uintptr { return 0 })
	err := (&blas{sgemm: idle, dgemm: idle}).check()
	if err == nil || !strings.Contains(err.Error(), "of a product is 0 in float64 and 0 in float32 and should be") {
		t.Errorf("the check returned %v", err)
	}
}
