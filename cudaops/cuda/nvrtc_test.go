package cuda

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"aicplan/cudaops/dl"
)

// openCompiler skips the test if NVRTC is not installed. It needs no GPU.
func openCompiler(t *testing.T) *CompilerLibrary {
	t.Helper()
	l, err := OpenCompiler(0)
	if dl.IsNotFound(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCompile(t *testing.T) {
	l := openCompiler(t)
	const src = `extern "C" __global__ void twice(float *x, int n) {
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) x[i] *= FACTOR;
}`
	cubin, err := l.Compile(Program{Name: "twice.cu", Source: src, SM: 90, Options: []string{"-DFACTOR=2.0f"}})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(cubin, []byte("\x7fELF")) {
		t.Errorf("the cubin starts with %q", cubin[:4])
	}
	ptx, err := l.Compile(Program{Name: "twice.cu", Source: src, SM: 80, Options: []string{"-DFACTOR=2.0f"}, PTX: true})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(ptx, []byte(".target sm_80")) || !bytes.Contains(ptx, []byte("twice")) {
		t.Errorf("not the PTX of the program:\n%s", ptx)
	}

	_, err = l.Compile(Program{Name: "broken.cu", Source: "__global__ void f() { undeclared = 1; }", SM: 90})
	var ce *CompileError
	if !errors.As(err, &ce) {
		t.Fatalf("error is %v, want a CompileError", err)
	}
	if !strings.Contains(err.Error(), "broken.cu") || !strings.Contains(err.Error(), "undeclared") {
		t.Errorf("the log does not name the error: %v", err)
	}
}

func TestSpecFollowsDriver(t *testing.T) {
	if got := CompilerSpec(12040).Sonames; len(got) != 1 || got[0] != "libnvrtc.so.12" {
		t.Errorf("a CUDA 12.4 driver is offered %q", got)
	}
	if got := CompilerSpec(13000).Sonames; len(got) != 2 || got[0] != "libnvrtc.so.13" {
		t.Errorf("a CUDA 13.0 driver is offered %q", got)
	}
}
