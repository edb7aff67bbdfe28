package cuda

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

func TestErrorKinds(t *testing.T) {
	for code, want := range map[int]struct{ sticky, memory bool }{
		CodeOutOfMemory:    {memory: true},
		CodeIllegalAddress: {sticky: true},
		CodeECC:            {sticky: true},
		CodeNVLink:         {sticky: true},
		CodeLaunchFailed:   {sticky: true},
		901:                {},
		CodeInvalidValue:   {},
		CodeNotReady:       {},
		500:                {},
	} {
		err := fmt.Errorf("case 7: %w", NewDriverError("cuLaunchKernel", code))
		if Sticky(err) != want.sticky || OutOfMemory(err) != want.memory {
			t.Errorf("%v: sticky %v, out of memory %v", err, Sticky(err), OutOfMemory(err))
		}
	}
	if Sticky(errors.New("other")) || Sticky(nil) {
		t.Error("an error of something else is sticky")
	}
	if got := NewDriverError("cuMemAlloc", CodeOutOfMemory).Error(); got != "cuMemAlloc: CUDA_ERROR (2)" {
		t.Errorf("%q", got)
	}
}

func TestPackArgs(t *testing.T) {
	words, err := packArgs([]any{Ptr(1 << 40), int32(-1), uint32(7), int64(-2), uint64(9), float32(1.5), 2.5})
	if err != nil {
		t.Fatal(err)
	}
	minusTwo := int64(-2)
	want := []uint64{1 << 40, 0xFFFFFFFF, 7, uint64(minusTwo), 9, uint64(math.Float32bits(1.5)), math.Float64bits(2.5)}
	for i := range want {
		if words[i] != want[i] {
			t.Errorf("argument %d is %#x, want %#x", i, words[i], want[i])
		}
	}
	if _, err := packArgs([]any{5}); err == nil {
		t.Error("an int, whose size the kernel cannot know, was taken")
	}
}

func TestUUID(t *testing.T) {
	var id [16]byte
	for i := range id {
		id[i] = byte(i)
	}
	if got := formatUUID(id); got != "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f" {
		t.Error(got)
	}
}
