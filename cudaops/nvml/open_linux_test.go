//go:build linux && cgo

package nvml

import (
	"testing"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// fakeLibrary is an NVML that starts with an error until the driver is loaded.
type fakeLibrary struct {
	lib.Interface // nil: nothing else is called
	t             *testing.T
	starts        int
	answer        lib.Return
}

func (l *fakeLibrary) Init() lib.Return { l.starts++; return l.answer }

func (l *fakeLibrary) ErrorString(lib.Return) string { return "no driver" }

func (l *fakeLibrary) Shutdown() lib.Return { l.t.Error("the library was ended"); return lib.SUCCESS }

// An abandoned scrape may still be inside the library when its recorder closes. Shutting down the library
// then caused a segmentation fault.
func TestLibraryStaysLoaded(t *testing.T) {
	l := &fakeLibrary{t: t, answer: lib.ERROR_DRIVER_NOT_LOADED}
	var s shared
	open := func() (API, error) { return s.open(func(...lib.LibraryOption) lib.Interface { return l }) }
	if _, err := open(); err == nil {
		t.Error("a library that does not start was opened")
	}
	l.answer = lib.SUCCESS // the driver was loaded in the meantime
	for range 2 {
		if _, err := open(); err != nil {
			t.Fatal(err)
		}
	}
	if l.starts != 2 {
		t.Errorf("started %d times: once in vain and once for all", l.starts)
	}
}
