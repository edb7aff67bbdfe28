package nccl

import (
	"errors"
	"strings"
	"testing"

	"aicplan/cudaops/dl"
)

func TestVersionText(t *testing.T) {
	for v, want := range map[int]string{22809: "2.28.9", 23007: "2.30.7", 20005: "2.0.5", 2708: "2.7.8"} {
		if got := VersionText(v); got != want {
			t.Errorf("VersionText(%d) = %s, want %s", v, got, want)
		}
	}
}

func TestErrorNamesCallAndCause(t *testing.T) {
	e := NewError("ncclAllReduce", CodeUnhandledCudaError)
	e.Text, e.Last = "unhandled cuda error", "Cuda failure 700"
	want := "ncclAllReduce: ncclUnhandledCudaError (1): unhandled cuda error: Cuda failure 700"
	if e.Error() != want {
		t.Errorf("got %q, want %q", e.Error(), want)
	}
	if got := NewError("x", 99).Error(); !strings.Contains(got, "99") {
		t.Errorf("an unknown code is not shown: %s", got)
	}
}

// The real library can report its version and create an id without a device.
func TestLibrary(t *testing.T) {
	l, err := Open()
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
	var e *Error
	if _, err := l.InitRank(2, UniqueID{}, 7); !errors.As(err, &e) {
		t.Fatalf("rank 7 of 2 joined: %v", err)
	}
	t.Logf("%s: %s; %v", l.Path(), VersionText(v), e)
}

func TestMissingLibrarySaysWhatToDo(t *testing.T) {
	e := &dl.NotFoundError{Name: Spec.Name, Sonames: Spec.Sonames, Hint: Spec.Hint}
	for _, want := range []string{"NCCL", "libnccl.so.2", "nvidia-nccl", "AICPLAN_LIBRARY_PATH"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q does not name %s", e, want)
		}
	}
}
