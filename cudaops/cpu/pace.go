package cpu

import (
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"
)

// pace knows how fast the processor can be. A neighbour on a shared processor
// makes everything slower for seconds, by 1.4 times and more, so that several visits
// to a case agree with each other and are all wrong. The same small piece of work,
// run before and after a visit, shows it.
type pace struct {
	x, y []float64
	seen []float64 // seconds that the work took at the last readings
	next int       // of them, to be replaced
	read func() float64
	sum  float64 // of the work, so that it is not left out
}

const (
	paceLength   = 1024 // elements; two arrays fit the first-level cache
	paceRounds   = 400
	paceTries    = 3
	paceReadings = 512
	// paceLeast is how many readings it takes to know what the processor can do, and
	// paceShare the share of them that were no slower than that, paceBoosts at least:
	// one or two fast readings are a boost that does not last. A larger share would
	// take a neighbour that is there nearly all the time for the processor.
	paceLeast  = 8
	paceBoosts = 2
	paceShare  = 0.02
	// paceSlow is how much slower a disturbed processor is. The work and a product slow
	// down alike, within some 3 %.
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

// work is the least time of a few tries: an interrupt hits one of them.
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

// slow reads the processor's pace and says whether it is slower than it can be.
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
