package policy

import (
	"fmt"
	"math"
)

// Past counts the cases of a group that earlier runs have finished.
type Past struct{ Measured, Failed int }

// Breaker stops groups of cases that fail from their first case on. Groups are numbered.
type Breaker struct {
	after  int
	names  []string
	groups []group
}

type group struct {
	measured int // cases, including earlier runs
	earlier  int // failures of earlier runs
	failures int // in this run, before the first measured case
	out      int // handed out and not ended
	tripped  string
	last     string // message of the last failure
}

// NewBreaker returns a breaker that stops a group after so many failures; zero never does. names are those of the
// groups, such as "gemm_dtype=fp8".
func NewBreaker(after int, names []string, past []Past) *Breaker {
	b := &Breaker{after: after, names: names, groups: make([]group, len(names))}
	for i, p := range past {
		b.groups[i] = group{measured: p.Measured, earlier: p.Failed}
	}
	return b
}

// Measured records a measured case of a group.
func (b *Breaker) Measured(no int) { b.groups[no].measured++ }

// Failed records a failed case of a group. It returns the reason if the group is stopped now, and "" otherwise.
func (b *Breaker) Failed(no int, message string) string {
	g := &b.groups[no]
	g.last = message
	if g.measured > 0 {
		return ""
	}

	g.failures++
	if b.after == 0 || g.earlier+g.failures < b.after || g.tripped != "" {
		return ""
	}
	g.tripped = TripText(b.names[no], g.earlier+g.failures, message)
	return g.tripped
}

// room returns how many more cases of a group may be handed out. Workers queue many cases, so a group that was never
// measured gets no more than the breaker allows to fail.
func (b *Breaker) room(g *group) int {
	if b.after == 0 || g.measured > 0 {
		return math.MaxInt
	}
	return max(0, max(1, b.after-g.earlier-g.failures)-g.out)
}

// TripText returns the reason why a group is not tried any further.
func TripText(group string, failures int, last string) string {
	return fmt.Sprintf("%s failed %d times from its first case on; the last time: %s", groupText(group), failures, last)
}

func groupText(name string) string {
	if name == "" {
		return "the op"
	}
	return name
}
