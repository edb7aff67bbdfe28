package affinity_test

import (
	"runtime"
	"slices"
	"testing"

	"aicplan/cudaops/affinity"
)

func TestSetKeepsAThreadInPlace(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the thread ends with the goroutine
	all, err := affinity.Get()
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	last := all[len(all)-1:]
	affinity.Set(last)
	if got, err := affinity.Get(); err != nil || !slices.Equal(got, last) {
		t.Errorf("on %v, want %v: %v", got, last, err)
	}
	affinity.Set(all)
	if got, err := affinity.Get(); err != nil || !slices.Equal(got, all) {
		t.Errorf("let go, on %v, want %v: %v", got, all, err)
	}
}
