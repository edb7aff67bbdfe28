package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDevicesFollowThePlan holds the order of device stages against the plan's
// when all that stands before them is there already: which of the answered
// stages is looked up first must not decide.
func TestDevicesFollowThePlan(t *testing.T) {
	b := newBench(t)
	text := func(round int) string {
		var s strings.Builder
		for i := range 8 {
			fmt.Fprintf(&s, "thing \"t%d\" { value = %d }\n", i, i+1)
		}
		for i := range 8 {
			fmt.Fprintf(&s, "device \"d%d\" {\n  input = thing.t%d\n  value = %d\n}\n", i, i, round)
		}
		return s.String()
	}
	b.apply(text(0))
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprintf("device.d%d", i))
	}
	for round := 1; round <= 10; round++ {
		b.ran = nil
		b.apply(text(round))
		if !slices.Equal(b.ran, want) {
			t.Fatalf("round %d: %v", round, b.ran)
		}
	}
}

// TestDevicesGoOnWithWhatIsWarm has stages of two engines in turn, each behind one
// before it: what an engine can do while it is there is done before the other starts.
func TestDevicesGoOnWithWhatIsWarm(t *testing.T) {
	b := newBench(t)
	b.warm = func(value int) string { return []string{"", "one", "two"}[value] }
	b.apply(`
device "a" { value = 1 }
device "b" { value = 2 }
device "c" { value = 0 }
device "d" {
  input = device.a
  value = 1
}
device "e" {
  input = device.b
  value = 2
}
device "f" {
  input = device.d
  value = 1
}
`)
	if want := "a d f b e c"; order(b.ran) != want {
		t.Errorf("ran %s, want %s", order(b.ran), want)
	}

	// Without anything warm it is the plan's order.
	b = newBench(t)
	b.apply(`
device "a" { value = 1 }
device "b" { value = 2 }
device "d" {
  input = device.a
  value = 1
}
`)
	if want := "a b d"; order(b.ran) != want {
		t.Errorf("ran %s, want %s", order(b.ran), want)
	}
}

func order(ran []string) string { return strings.ReplaceAll(strings.Join(ran, " "), "device.", "") }
