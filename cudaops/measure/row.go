package measure

import (
	"context"
	"slices"
	"time"
)

// Link is one visit of several in a row.
type Link struct {
	Target Burster
	Burst  Burst
}

// Linked is a Burster whose device can queue visits to several targets, so that the host's time
// between them is not added to the device's.
type Linked interface {
	Burster
	// Follows reports whether visits to this target can be queued after one to the first.
	Follows(first Burster) bool
	// Row makes visits one after the other. The device rests for pause between two of them. It
	// returns the blocks of each visit in order, none for a visit that has to be made alone. If
	// one fails, these are the blocks of the visits before it and its error.
	Row(ctx context.Context, links []Link, pause time.Duration) ([][]Block, error)
}

const (
	// longestRow is the number of visits in a row, and rowSeconds the device's time for them.
	longestRow = 8
	rowSeconds = 20e-3
	rowPause   = time.Millisecond // the longest, between two of them
	// If more than refusedShare of fewRefused or more visits after the first one of their row find a device
	// that is not ready, it needs a longer rest, which visits of their own give it.
	fewRefused   = 4
	refusedShare = 0.2
)

// following returns the case and others that are visited in a row with it: the next ones in the
// order of visits that the device can queue, while none of them has to wait for the device to cool.
func (s *Session) following(o *pending, now time.Duration) []*pending {
	group := []*pending{o}
	first, ok := o.job.Target.(Linked)
	if !ok || s.hot || !s.engine() || s.Tuning.Gap > rowPause || s.tires() || !s.follows(o, first) {
		return group
	}

	var others []*pending
	for _, x := range s.open {
		if x != o && len(x.visits) == len(o.visits) && x.ready <= now && s.follows(x, first) {
			others = append(others, x)
		}
	}
	slices.SortFunc(others, func(a, b *pending) int {
		if s.before(a, b) {
			return -1
		}
		return 1
	})

	took, heat := 0.0, s.heat
	for _, x := range append(group, others...) {
		if x != o {
			if len(group) == longestRow || took > rowSeconds || heat > s.Tuning.HeatJoules {
				break
			}
			group = append(group, x)
		}
		b := s.next(x, 0)
		busy := float64(b.Total()) * s.guess(x)
		span := busy + s.Tuning.Gap.Seconds()
		took, heat = took+span, max(0, heat+busy*x.job.Watts-span*s.Tuning.RecoverWatts)
	}
	return group
}

// follows reports whether the case may be visited in a row whose first visit is that to the target first.
func (s *Session) follows(o *pending, first Linked) bool {
	t, ok := o.job.Target.(Linked)
	return ok && t.Follows(first) && o.seconds > 0 && !o.alone && o.job.Finish == nil && !s.probes(o) && !s.isHot(o)
}

// tires reports whether the device has not recovered after the rest between two visits in a row.
func (s *Session) tires() bool {
	return s.rowRefused >= fewRefused && float64(s.rowRefused) > refusedShare*float64(s.rowed)
}

// visitInARow visits cases one after the other in one row. A case whose estimate was far off is
// visited again after the row.
func (s *Session) visitInARow(ctx context.Context, group []*pending) error {
	began := s.Clock.Now()
	links := make([]Link, len(group))
	for i, o := range group {
		o.announce()
		links[i] = Link{o.job.Target, s.next(o, 0)}
	}
	rows, err := group[0].job.Target.(Linked).Row(ctx, links, s.Tuning.Gap)
	for i, blocks := range rows {
		if bad := checkBlocks(blocks, links[i].Burst); bad != nil && len(blocks) > 0 {
			rows, err = rows[:i], bad
			break
		}
	}
	// Only the end of the row is known: the visits before it ended earlier by what the later ones took.
	ends := make([]time.Duration, len(rows))
	end := s.Clock.Now()
	for i := len(rows) - 1; i >= 0; i-- {
		ends[i] = max(end, began)
		end -= s.Tuning.Gap + spanOf(rows[i], links[i].Burst)
	}

	var first error
	note := func(e error) {
		if first == nil {
			first = e
		}
	}
	visits, again := make([]Visit, len(rows)), []int{}
	for i, blocks := range rows {
		o, b := group[i], links[i].Burst
		at := began
		if i > 0 {
			at = min(ends[i-1]+s.Tuning.Gap, ends[i])
		}
		s.cool(at)
		visits[i] = s.begin(o, at)
		switch {
		case len(blocks) == 0:
			o.alone = true
			s.spend(float64(b.Total())*s.guess(o), o.job.Watts)
		case !s.complete(o, true, 0, blocks, b):
			s.account(o, blocks, b)
			s.ended = ends[i]
			again = append(again, i)
		default:
			discarded := s.Discarded
			note(s.visited(ctx, o, visits[i], blocks, b, ends[i]))
			if i > 0 {
				s.rowed, s.rowRefused = s.rowed+1, s.rowRefused+s.Discarded-discarded
			}
		}
	}
	if err != nil {
		s.ended = s.Clock.Now()
		note(s.fail(group[len(rows)], err))
	}
	for _, i := range again {
		o := group[i]
		blocks, b, err := s.run(ctx, o, 1)
		if err != nil {
			s.ended = s.Clock.Now()
			note(s.fail(o, err))
			continue
		}
		note(s.visited(ctx, o, visits[i], blocks, b, s.Clock.Now()))
	}
	return first
}

// spanOf is the device's time for a burst.
func spanOf(blocks []Block, b Burst) time.Duration {
	sum, n := 0.0, 0
	for _, x := range blocks {
		sum, n = sum+x.Seconds, n+executions(x, b)
	}
	return seconds(sum * (1 + float64(b.Warm)/float64(max(n, 1))))
}
