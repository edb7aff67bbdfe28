package cpu

import (
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
)

// pace detects whether the CPU is slowed down by other work. Another tenant of a shared CPU slows down
// everything for seconds, by a factor of 1.4 or more, so that several visits of a case may agree with each
// other and all be wrong. A small fixed piece of work, timed before and after each visit, detects this.
type pace struct {
	x, y []float64
	seen []float64 // times of the last readings in seconds
	next int       // index of the reading to replace next
	read func() float64
	sum  float64 // result of the work, so that the compiler does not remove it
}

const (
	paceLength   = 1024 // elements; two arrays fit into the L1 cache
	paceRounds   = 400
	paceTries    = 3
	paceReadings = 512
	// paceLeast is the number of readings needed to estimate the undisturbed time, and paceShare is the
	// fraction of readings that are at most that time, but at least paceBoosts readings. One or two very
	// fast readings are a short boost. A larger share would accept a permanently disturbed CPU.
	paceLeast  = 8
	paceBoosts = 2
	paceShare  = 0.02
	// paceSlow is the slowdown above which the CPU counts as disturbed. The work and a matrix product slow
	// down by the same factor within about 3 %.
	paceSlow = 1.05
)

func newPace() *pace {
	p := &pace{x: make([]float64, paceLength), y: make([]float64, paceLength)}
	for i := range p.x {
		p.x[i], p.y[i] = 1/float64(i+1), float64(i)
	}
	p.read = p.work
	return p
}

// work returns the minimum time of a few tries in seconds, because an interrupt may affect one of them.
func (p *pace) work() float64 {
	var tries []float64
	for range paceTries {
		began := time.Now()
		for range paceRounds {
			p.sum += floats.Dot(p.x, p.y)
		}
		tries = append(tries, time.Since(began).Seconds())
	}
	return slices.Min(tries)
}

// slow takes a reading and reports whether the CPU is currently slower than it can be.
func (p *pace) slow() bool {
	now := p.read()
	if len(p.seen) < paceReadings {
		p.seen = append(p.seen, now)
	} else {
		p.seen[p.next] = now
		p.next = (p.next + 1) % paceReadings
	}

	if len(p.seen) < paceLeast {
		return false
	}

	best := slices.Sorted(slices.Values(p.seen))[max(paceBoosts, int(paceShare*float64(len(p.seen))))]
	return now > paceSlow*best
}
