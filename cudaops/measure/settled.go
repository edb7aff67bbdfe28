package measure

import (
	"math"
	"time"
)

// Settled keeps the clocks that capped cases held in batches of a device, by their droop. Three runs of 54
// products on an H200 were replayed: rows stated at the clock that some 300 cases of like droop had differ by
// 1.009 / 1.027 (p50, p95 of max/min) with visits of 6 ms and by 1.009 / 1.025 with those of 30 ms that were
// made; rows stated at the clock of their own batch of 12 to 47 cases by 1.015 / 1.059. So batches are brief
// once it has enough cases.
type Settled struct {
	points []settledPoint
	at     time.Duration // of the last batch that was heated in full
}

// settledPoint is one case: its droop, and the logarithm of the clock that it held.
type settledPoint struct{ droop, clock float64 }

const (
	settledCases  = 1000             // the latest that are kept
	settledWidth  = 0.02             // of droop: cases so near count for 1/e
	settledWeight = 5                // the least sum of weights that gives a clock
	settledFor    = 10 * time.Minute // after which a batch is heated in full again

	briefShare = 0.9                    // of a batch whose clocks have to be there
	briefHeat  = 400 * time.Millisecond // in place of Tuning.Preheat
	briefVisit = 10 * time.Millisecond
	ownVisit   = 40 * time.Millisecond // of a case whose clock is not there
)

// knows reports whether the clock of a case follows from its droop. Above learnShare some cases are capped and
// others of the same droop are not.
func (s *Session) knows(o *pending) bool {
	if s.Settled == nil || !o.job.Learn || o.droop <= 0 || o.droop >= learnShare {
		return false
	}
	_, ok := s.Settled.clock(o.droop)
	return ok
}

// brief reports whether a batch needs no equilibrium of its own.
func (s *Session) brief(batch []*pending) bool {
	if s.Settled == nil || len(s.Settled.points) == 0 || s.Clock.Now()-s.Settled.at > settledFor {
		return false
	}
	known := 0
	for _, o := range batch {
		if s.knows(o) {
			known++
		}
	}
	return float64(known) >= briefShare*float64(len(batch))
}

// add keeps the clocks of a batch, logarithms in the order of its cases.
func (m *Settled) add(batch []*pending, clocks []float64, now time.Duration) {
	for i, o := range batch {
		if o.job.Learn && o.droop > 0 && !math.IsNaN(clocks[i]) {
			m.points = append(m.points, settledPoint{o.droop, clocks[i]})
		}
	}
	m.points = m.points[max(0, len(m.points)-settledCases):]
	m.at = now
}

// clock is the logarithm of the clock of a case with this droop: a local line through those that are kept.
func (m *Settled) clock(droop float64) (float64, bool) {
	var sw, sx, sy, sxx, sxy float64
	for _, p := range m.points {
		x := (p.droop - droop) / settledWidth
		w := math.Exp(-x * x)
		sw, sx, sy = sw+w, sx+w*x, sy+w*p.clock
		sxx, sxy = sxx+w*x*x, sxy+w*x*p.clock
	}
	if sw < settledWeight {
		return 0, false
	}
	mx, my := sx/sw, sy/sw
	slope := (sxy - sw*mx*my) / (sxx - sw*mx*mx + 0.04*sw)
	return my - slope*mx, true
}
