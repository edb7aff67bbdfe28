//go:build linux && cgo

package nvml

import (
	"testing"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// An abandoned scrape may still be inside the library when its recorder closes. Shutting down the library
// then caused a segmentation fault.
func TestLibraryStaysLoaded(t *testing.T) {
	starts := 0
	answer := lib.ERROR_DRIVER_NOT_LOADED
	l := &mock.Interface{
		InitFunc:        func() lib.Return { starts++; return answer },
		ErrorStringFunc: func(lib.Return) string { return "no driver" },
		ShutdownFunc:    func() lib.Return { t.Error("the library was ended"); return lib.SUCCESS },
	}
	var s shared
	open := func() (API, error) { return s.open(func(...lib.LibraryOption) lib.Interface { return l }) }
	if _, err := open(); err == nil {
		t.Error("a library that does not start was opened")
	}
	answer = lib.SUCCESS // the driver was loaded in the meantime
	for range 2 {
		if _, err := open(); err != nil {
			t.Fatal(err)
		}
	}
	if starts != 2 {
		t.Errorf("started %d times: once in vain and once for all", starts)
	}
}
