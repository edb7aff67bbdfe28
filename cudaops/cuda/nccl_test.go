package cuda

import (
	"errors"
	"strings"
	"testing"

	"aicplan/cudaops/dl"
)

func TestVersionText(t *testing.T) {
	for v, want := range map[int]string{22809: "2.28.9", 23007: "2.30.7", 20005: "2.0.5", 2708: "2.7.8"} {
		if got := NCCLVersionText(v); got != want {
			t.Errorf("VersionText(%d) = %s, want %s", v, got, want)
		}
	}
}

// The real library can report its version and create an id without a device.
func TestNCCLLibrary(t *testing.T) {
	l, err := OpenNCCL()
	if dl.IsNotFound(err) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	v, err := l.Version()
	if err != nil || v < 20000 {
		t.Fatalf("version %d, %v", v, err)
	}
	// Joining with an invalid rank must return NCCL's error, which shows that arguments are passed
	// correctly.
	var e *CallError
	if _, err := l.InitRank(2, UniqueID{}, 7); !errors.As(err, &e) {
		t.Fatalf("rank 7 of 2 joined: %v", err)
	}
	t.Logf("%s: %s; %v", l.Path(), NCCLVersionText(v), e)
}

func TestMissingLibrarySaysWhatToDo(t *testing.T) {
	e := &dl.NotFoundError{Name: NCCLSpec.Name, Sonames: NCCLSpec.Sonames, Hint: NCCLSpec.Hint}
	for _, want := range []string{"NCCL", "libnccl.so.2", "nvidia-nccl", "AICPLAN_LIBRARY_PATH"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q does not name %s", e, want)
		}
	}
}
