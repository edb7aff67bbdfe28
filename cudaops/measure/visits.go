package measure

import (
	"context"
	"slices"
	"time"
)

// VisitsGap is the least time between two visits of one case: longer than what a
// neighbour on a shared processor runs without a break. DisturbedGap is that after
// a visit that found a slow processor: such a neighbour stays for seconds.
const (
	VisitsGap    = 20 * time.Millisecond
	DisturbedGap = 250 * time.Millisecond
)

// Visits measures one case in visits that the caller makes when it suits, with
// other cases between them, and lets the fastest one count: for processors that
// others share. What disturbs an execution there makes it slower, never faster,
// and lasts for seconds: so visits have to be apart. A visit is as fast as its
// faster blocks, the two fastest visits have to agree, and PassSpread is the spread
// of all of them. Disturbed visits may agree, too: those that the caller marks
// with Disturbed do not end a case before MaxPasses.
type Visits struct {
	o         once
	reference *Measured
	ended     time.Duration // of the last visit
	spent     time.Duration
	gap       time.Duration // before the next one
	calm      []float64     // medians of the undisturbed visits
}

// NewVisits begins a case.
func NewVisits(c Clock, s Settings) (*Visits, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Visits{o: once{clock: c, s: s, fastest: true}}, nil
}

// Visit makes one visit to a target that is the same kernel every time. The
// reference protocol has one visit, and knows no fastest.
func (v *Visits) Visit(ctx context.Context, t Target) error {
	began := v.o.clock.Now()
	defer func() {
		v.ended = v.o.clock.Now()
		v.spent += v.ended - began
	}()
	if v.o.s.Protocol == ProtocolReference {
		r, err := reference(ctx, t)
		if err == nil {
			v.reference = &r
		}
		return err
	}
	if wait := v.ended + v.gap - began; len(v.o.medians) > 0 && wait > 0 {
		if err := v.o.clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	v.o.ctx, v.o.target = ctx, t
	if err := v.o.pass(); err != nil {
		return err
	}
	v.gap = VisitsGap
	v.calm = append(v.calm, v.o.medians[len(v.o.medians)-1])
	return nil
}

// Disturbed marks the last visit as one on a processor that was slower than it can be.
func (v *Visits) Disturbed() {
	if len(v.calm) > 0 && v.reference == nil {
		v.gap = DisturbedGap
		v.calm = v.calm[:len(v.calm)-1]
	}
}

// Done reports whether no further visit is needed.
func (v *Visits) Done() bool {
	n := len(v.o.medians)
	switch {
	case v.reference != nil || n > 0 && n >= v.o.s.MaxPasses:
		return true
	case n == 0 || len(v.calm) < min(2, v.o.s.Passes):
		return false
	}
	return v.o.done() && Spread(slices.Sorted(slices.Values(v.calm))[:min(len(v.calm), 2)]) <= v.o.s.PassTolerance
}

// Result is the case's row; Spent is the time of its own visits.
func (v *Visits) Result() Measured {
	r := v.reference
	if r == nil {
		own := v.o.result()
		r = &own
	}
	r.Spent = v.spent
	return *r
}
