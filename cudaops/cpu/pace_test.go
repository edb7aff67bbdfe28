package cpu

import "testing"

// TestPace simulates a CPU with intermittent load from another tenant and one short boost.
func TestPace(t *testing.T) {
	t.Parallel()
	p := newPace()
	now := 100e-6
	p.read = func() float64 { return now }
	for i := range 40 {
		if p.slow() {
			t.Fatalf("reading %d is slower than those before, which were the same", i)
		}
	}
	now = 140e-6
	for range 5 {
		if !p.slow() {
			t.Fatal("a neighbour that takes a third of the processor is not seen")
		}
	}
	now = 70e-6
	p.slow()
	now = 100e-6
	if p.slow() {
		t.Error("after a single boost everything counts as slow")
	}
	// A clock that drops by some percent is detected, but a fluctuating one is not.
	now = 107e-6
	if !p.slow() {
		t.Error("a processor that is 7 % slower is not seen")
	}
	now = 102e-6
	if p.slow() {
		t.Error("2 % slower counts as slow")
	}
	// Load that pauses for one reading in twenty counts as permanent load.
	now = 140e-6
	for i := range paceReadings {
		if now = 140e-6; i%20 == 0 {
			now = 100e-6
		}
		if p.slow() != (i%20 > 0) {
			t.Fatalf("reading %d, of %v s", i, now)
		}
	}
	// Permanent load is accepted as the normal speed.
	now = 140e-6
	for range 2 * paceReadings {
		p.slow()
	}
	if p.slow() {
		t.Error("a processor that has been like this for long counts as slow")
	}
	if real := newPace(); !(real.work() > 0) || real.sum == 0 {
		t.Error("the work takes no time")
	}
}
