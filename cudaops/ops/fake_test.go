package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure/measuretest"
)

func newFake(t *testing.T) (*fakeDriver, cuda.Stream) {
	t.Helper()
	d := newFakeDriver(measuretest.NewGPU(&measuretest.Clock{}, rand.New(rand.NewPCG(1, 1))), 1)
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return d, s
}

// TestTimes checks that events time the work queued between them, eagerly and in a graph.
func TestTimes(t *testing.T) {
	d, s := newFake(t)
	a, _ := d.NewEvent()
	b, _ := d.NewEvent()
	work := fakeWork{Name: "k", Seconds: 1e-4}
	if err := d.BeginCapture(s); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := d.Enqueue(s, work); err != nil {
			t.Fatal(err)
		}
	}
	g, err := d.EndCapture(s)
	if err != nil {
		t.Fatal(err)
	}
	x, err := d.Instantiate(g)
	if err != nil {
		t.Fatal(err)
	}
	if d.Executed["k"] != 0 {
		t.Error("captured work ran")
	}
	for _, err := range []error{d.Record(a, s), d.LaunchGraph(x, s), d.Enqueue(s, work), d.Record(b, s), d.SyncStream(s)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ms, err := d.Elapsed(a, b)
	if err != nil || !(math.Abs(ms-0.4) <= 1e-3) {
		t.Errorf("four times 0.1 ms took %v ms, %v", ms, err)
	}
}

func TestFaults(t *testing.T) {
	d, s := newFake(t)
	if _, err := d.Alloc(1 << 50); !cuda.OutOfMemory(err) {
		t.Errorf("an allocation beyond the memory: %v", err)
	}
	if err := d.BeginCapture(s); err != nil {
		t.Fatal(err)
	}
	if err := d.Enqueue(s, fakeWork{Name: "k", NoCapture: true}); err == nil || cuda.Sticky(err) {
		t.Errorf("work that cannot be captured: %v", err)
	}
	if _, err := d.EndCapture(s); err == nil || cuda.Sticky(err) {
		t.Errorf("the end of a broken capture: %v", err)
	}
	if err := d.Enqueue(s, fakeWork{Name: "k"}); err != nil {
		t.Errorf("the stream is not usable after a broken capture: %v", err)
	}
	bad := fakeWork{Name: "bad", Do: func(*fakeDriver) *cuda.DriverError {
		return cuda.NewDriverError("bad",
			cuda.CodeIllegalAddress)
	}}
	if err := d.Enqueue(s, bad); err != nil {
		t.Fatal(err)
	}
	if err := d.SyncStream(s); !cuda.Sticky(err) {
		t.Errorf("an illegal address: %v", err)
	}
	if _, err := d.Alloc(1); !cuda.Sticky(err) {
		t.Errorf("a call after the context was lost: %v", err)
	}
}
