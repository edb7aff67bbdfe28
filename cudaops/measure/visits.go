package measure

import (
	"context"
	"time"
)

// VisitsGap is the least time between two visits of one case: longer than what a
// neighbour on a shared processor runs without a break.
const VisitsGap = 20 * time.Millisecond

// Visits measures one case in visits that the caller makes when it suits, with
// other cases between them, and lets the fastest one count: for processors that
// others share. What disturbs an execution there makes it slower, never faster,
// and lasts for seconds: so visits have to be apart. A visit is as fast as its
// faster blocks, the two fastest visits have to agree, and PassSpread keeps how
// far all were apart.
type Visits struct {
	o         once
	reference *Measured
	ended     time.Duration // of the last visit
	spent     time.Duration
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
	if gap := v.ended + VisitsGap - began; len(v.o.medians) > 0 && gap > 0 {
		if err := v.o.clock.Sleep(ctx, gap); err != nil {
			return err
		}
	}
	v.o.ctx, v.o.target = ctx, t
	return v.o.pass()
}

// Done says whether no further visit is needed.
func (v *Visits) Done() bool { return v.reference != nil || len(v.o.medians) > 0 && v.o.done() }

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
