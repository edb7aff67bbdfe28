//go:build linux

package comm

import (
	"os"
	"testing"
	"unsafe"

	"aicplan/cudaops/dl"
)

// NCCL reads its variables with C's getenv, so variables set in Go must be visible there.
func TestPrepareEnvReachesTheLibraries(t *testing.T) {
	libc, err := dl.Open(dl.Spec{Name: "libc", Sonames: []string{"libc.so.6"}})
	if err != nil {
		t.Skip(err)
	}
	getenv, err := libc.Symbol("getenv")
	if err != nil {
		t.Fatal(err)
	}
	inC := func(name string) string {
		b := append([]byte(name), 0)
		return dl.GoString(dl.CallPointer(getenv.At, uintptr(unsafe.Pointer(&b[0]))))
	}
	t.Setenv("NCCL_NVLS_ENABLE", "")
	t.Setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
	os.Unsetenv("NCCL_NVLS_ENABLE")
	prepareEnv()
	if got := inC("NCCL_NVLS_ENABLE"); got != "0" {
		t.Errorf("C sees NCCL_NVLS_ENABLE=%q; NVLink multicast must be off unless the plan or the user enables it", got)
	}
	if got := inC("CUDA_DEVICE_ORDER"); got != "FASTEST_FIRST" {
		t.Errorf("what the user set was replaced by %q", got)
	}
}
