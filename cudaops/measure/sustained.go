package measure

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// At the sustained operating point a case runs at the clock that the power cap
// leaves it when its like runs without end. Finding that clock for one case
// alone takes tenths of a second, because the controller moves slowly: 10 ms to
// fall, 100 ms to rise, and a second until its mean of the power forgets what
// was before. The session finds it for many cases together:
//
//   - Cases that draw less than the cap leaves are measured on a device that has
//     recovered, as at the recovered point: that is the clock that they hold.
//   - All others are gathered and run one after the other without pauses, in the
//     order of the power that they would draw at full clock, down the order and
//     up again. Neighbours of like power keep each other's clock, and the two
//     directions bracket it.
//   - The clock of every block is read on the device. How a case follows the
//     clock is fitted to its own blocks: an H200's matrix products do so within
//     0.3 %. Its latency is then stated at the clock that cases of its power had
//     in this batch, so that a swing of the controller during one visit counts
//     for a little in many rows instead of fully in one.
//
// Of a learned case only the droop is known: how far it lowers the clock of a recovered
// device. Those that the cap may limit are visited once each, in windows, and stated at a
// clock on a line over the droop.
const (
	// capShare is the share of the power that the cap leaves above idle from which
	// on a case is visited with the capped ones. H200s lower the clock from 0.6 on.
	capShare = 0.58
	// shortShare: cases below it are hardly capped, and their visits are shorter.
	shortShare = 0.7
	// droopShare is the clock under load over the clock with nothing running that
	// identifies a capped case before it is measured: work with high power lowers the
	// clock within microseconds.
	droopShare = 0.86

	hotBlock    = 2e-3 // seconds of a timed block, if a device can queue as much
	hotVisit    = 13 * time.Millisecond
	longVisit   = 200 * time.Millisecond // of a case that is almost alone
	fewCases    = 96                     // from so many on a visit is hotVisit
	heatVisit   = 2 * time.Millisecond   // the least before the passes, to know the time
	windowVisit = 4 * time.Millisecond   // of a learned case
	lockedVisit = 9 * time.Millisecond   // of one if the clock is locked or unknown
	windowTurn  = 2 * time.Millisecond   // from one visit to the next
	windowBlock = 1.2e-3                 // seconds of a block
	windowHeat  = 200 * time.Millisecond // Preheat after a rest
	windowShift = 40 * time.Millisecond  // Preheat of a window that follows another one at once
	windowRest  = 100 * time.Millisecond
	// windowSettle is the time since a rest from which on the clock of a visit shows what the power cap leaves.
	windowSettle = 150 * time.Millisecond
	restAfter    = 500 * time.Millisecond // the most, after a batch
	batchGrace   = 60 * time.Millisecond
	batchPoll    = 5 * time.Millisecond

	// Smoothing over neighbours in the order: so many on both sides, weighted by how
	// much of CapWatts they are away. Replayed over the visits of two H200s, 24 cases
	// repeat better than 8 did, and are as near to what cases take alone.
	smoothCases = 24
	smoothShare = 0.2
	// mostCapped is how many visits a session remembers for the line of learnedClocks.
	mostCapped = 512
	// Alone, a capped case lowers the clock for 0.2 s longer than a window takes. The line over the droop was 1.5 to
	// 3.3 % above the clocks that products had alone on two H200s, which were within 2 % of it (standard deviation).
	settleShare = 0.022
	// The slope of that line is lineFollows on an H200. A fit to few cases starts there: it counts as much as lineCases
	// cases whose droops are lineMoves (in logarithms) from their mean.
	lineFollows, lineCases, lineMoves = 1.3, 8, 0.02
	// The fit of a case's time over its clock is drawn to priorSlope as if it had
	// seen the clock move by priorMoves with it.
	priorSlope = 0.8
	priorMoves = 0.01
	maxSlope   = 1.05
)

// block is one timed block: the logarithms of clock and of seconds an execution.
type block struct{ clock, seconds float64 }

// engine reports whether the session itself brings cases to the sustained point.
func (s *Session) engine() bool {
	return s.Settings.OperatingPoint == PointSustained && s.Settings.WarmupSeconds <= 0
}

// fullClock is the highest clock seen, in MHz; 0 if none was.
func (s *Session) fullClock() float64 { return max(s.top, s.Level) }

// load returns the power that the case would draw at full clock, in watts above idle.
func (s *Session) load(o *pending) float64 {
	if o.job.Learn {
		return s.learnt(o)
	}
	if o.job.Draw == nil {
		return o.job.Watts
	}
	return o.job.Draw(s.guess(o), s.clockShare(o))
}

// rank is load as it orders capped cases.
func (s *Session) rank(o *pending) float64 {
	if o.job.Rank == nil {
		return s.load(o)
	}
	return o.job.Rank(s.guess(o), s.clockShare(o))
}

// clockShare returns the clock at the case's last visit as a share of the full clock.
func (s *Session) clockShare(o *pending) float64 {
	if full := s.fullClock(); full > 0 && o.clock > 0 {
		return min(o.clock/full, 1)
	}
	return 1
}

// capped reports whether the power cap limits the case.
func (s *Session) capped(o *pending) bool {
	return !s.probes(o) && s.held(o)
}

// held is capped for cases that need not be probed first.
func (s *Session) held(o *pending) bool {
	if o.job.Learn && !s.Tuning.Locked {
		if !o.probed {
			return s.guess(o) > longLook // unknown until its first visit on a ready device
		}
		return s.guess(o) >= tinySeconds && o.droop < heldBelow(s.guess(o))
	}
	return o.droops || s.Tuning.CapWatts > 0 && s.load(o) >= capShare*s.Tuning.CapWatts
}

// learns reports whether capped cases are ordered by how far they lower the clock of a
// recovered device.
func (s *Session) learns() bool { return s.Tuning.HotPass > 0 && !s.Tuning.Locked && s.Level > 0 }

// gather reports whether to wait for more cases before the capped ones run: the clocks
// of a small batch are smoothed over few neighbours.
func (s *Session) gather(more bool) bool {
	if !more || s.Batch > 0 && len(s.open) >= s.Batch {
		return false
	}
	now := s.Clock.Now()
	if len(s.open) != s.gathered {
		s.gathered, s.gatheredAt = len(s.open), now
	}
	return now-s.gatheredAt < batchGrace
}

// runBatch measures all open cases, which are capped ones.
func (s *Session) runBatch(ctx context.Context, stop func(error) bool) error {
	s.hot, s.gathered = true, 0
	if s.learns() && slices.ContainsFunc(s.open, (*pending).unknown) {
		return s.runLong(ctx, stop)
	}
	groups, length := [][]*pending{slices.Clone(s.open)}, HotLength(len(s.open))
	switch {
	case s.learns():
		groups, length = s.windows(), windowVisit
	case s.Tuning.HotPass > 0:
		length = lockedVisit
	}

	var measured []*pending
	for _, g := range groups {
		heat := s.Tuning.Preheat
		if s.learns() {
			worked, err := s.rest(ctx, windowShift+s.passTime(g))
			if err != nil {
				return err
			}
			heat = max(windowHeat-worked, windowShift)
		} else if s.hotEnded > 0 && s.Clock.Now()-s.hotEnded < s.Tuning.Preheat/10 {
			heat = 0
		}
		failed := func(o *pending, err error) error {
			for _, list := range []*[]*pending{&g, &measured} {
				*list = slices.DeleteFunc(slices.Clone(*list), func(x *pending) bool { return x == o })
			}
			return s.failHot(ctx, o, err, stop)
		}
		if err := s.preheat(ctx, s.heaters(g, heat), heat, failed); err != nil {
			return err
		}
		g, err := s.runGroup(ctx, g, length, failed)
		if err != nil {
			return err
		}
		measured = append(measured, g...)
	}
	if err := s.concludeBatch(ctx, measured, ownShare(length), stop); err != nil {
		return err
	}
	s.endHot()
	return nil
}

// runLong measures the open cases that take longer than longLook. The first visit brings the device to the clock of the
// case, and only the second one counts. Cases that turn out to be shorter are probed next.
func (s *Session) runLong(ctx context.Context, stop func(error) bool) error {
	long := slices.DeleteFunc(slices.Clone(s.open), func(o *pending) bool { return !o.unknown() })
	slices.SortStableFunc(long, func(a, b *pending) int { return cmp.Compare(s.guess(a), s.guess(b)) })
	for _, o := range long {
		if _, err := s.rest(ctx, 2*seconds(s.guess(o))); err != nil {
			return err
		}
		err := s.hotVisit(ctx, o, 0, true, true)
		if err == nil && s.guess(o) <= longLook {
			continue
		}
		if err == nil {
			err = s.hotVisit(ctx, o, 0, false, true)
		}
		if err == nil {
			err = s.concludeBatch(ctx, []*pending{o}, 1, stop)
		} else {
			err = s.failHot(ctx, o, err, stop)
		}
		if err != nil {
			return err
		}
	}
	s.endHot()
	return nil
}

// failHot ends a capped case with an error. It returns an error if the session ends with it.
func (s *Session) failHot(ctx context.Context, o *pending, err error, stop func(error) bool) error {
	if e := s.fail(o, err); ctx.Err() != nil || stop != nil && stop(e) {
		return e
	}
	return nil
}

// endHot goes back to cool cases. They have to wait for the clock again. The clock shows when the device has recovered.
// The energy of the batch does not show it: it would require 5 s of rest after 5 s of work.
func (s *Session) endHot() {
	s.hot, s.unsure = false, true
	s.cool(s.Clock.Now())
	s.heat = min(s.heat, s.Tuning.RecoverWatts*restAfter.Seconds())
}

// rest lets the device rest if capped work of the given duration would end later than windowHeat and HotPass after the
// last rest. An H200 reaches the clock of the power cap 0.2 s after work began. After 0.8 s, a second controller lowers
// the clock by up to 15 % for 0.2 s. After 0.1 s of rest, the same happens again. It returns how long the device has
// worked since the rest.
func (s *Session) rest(ctx context.Context, work time.Duration) (worked time.Duration, err error) {
	now := s.Clock.Now()
	idle := s.hotEnded == 0 || now-s.hotEnded >= windowRest
	if !idle && now-s.hotBegan+work > windowHeat+s.Tuning.HotPass {
		idle, err = true, s.Clock.Sleep(ctx, windowRest)
	}
	if idle {
		s.hotBegan = s.Clock.Now()
	}
	return s.Clock.Now() - s.hotBegan, err
}

// unknown reports whether a learned case has not been probed.
func (o *pending) unknown() bool { return o.job.Learn && !o.probed }

// passTime is how long the visits to cases in a window take.
func (s *Session) passTime(cases []*pending) (sum time.Duration) {
	for _, o := range cases {
		sum += windowTurn + max(windowVisit, seconds(s.graphTime(o)))
	}
	return sum
}

// graphTime is how long the shortest burst of a case takes, in seconds.
func (s *Session) graphTime(o *pending) float64 {
	return s.guess(o) * float64(max(o.job.Target.Quantum(), 1))
}

// hungry reports whether the droop of a learned case shows that the power cap limits it.
func (o *pending) hungry() bool { return o.droop >= leastShare && o.droop < learnShare }

// heaters returns the cases that heat the device: short ones, of those the ones that the power cap limits, and of the
// learned ones no more than can be visited in that time.
func (s *Session) heaters(batch []*pending, heat time.Duration) (out []*pending) {
	if !s.learns() {
		return batch
	}
	for _, hungry := range []bool{true, false} {
		some := slices.DeleteFunc(slices.Clone(batch), func(o *pending) bool {
			return s.graphTime(o) > windowVisit.Seconds() || hungry && !o.hungry()
		})
		if len(some) > 0 {
			batch = some
			break
		}
	}
	n := min(max(int(heat*time.Duration(len(batch))/s.passTime(batch)), 1), len(batch))
	for i := range n {
		out = append(out, batch[i*len(batch)/n])
	}
	return out
}

// windows divides the open cases, in the order of their power, into groups whose visits take HotPass at most. Each has
// its share of those that the power cap may not limit, after the others: so they run at the clock of capped ones.
func (s *Session) windows() [][]*pending {
	open := slices.Clone(s.open)
	slices.SortStableFunc(open, func(a, b *pending) int { return cmp.Compare(s.rank(b), s.rank(a)) })
	out := make([][]*pending, max(int(math.Ceil(s.passTime(open).Seconds()/s.Tuning.HotPass.Seconds())), 1))
	for _, hungry := range []bool{true, false} {
		some := slices.DeleteFunc(slices.Clone(open), func(o *pending) bool { return o.hungry() != hungry })
		each, sum := s.passTime(some)/time.Duration(len(out))+1, time.Duration(0)
		for _, o := range some {
			at := int(sum / each)
			out[at] = append(out[at], o)
			sum += s.passTime([]*pending{o})
		}
	}
	return slices.DeleteFunc(out, func(g []*pending) bool { return len(g) == 0 })
}

// runGroup visits capped cases side by side, in visits of the given length. Learned cases have one visit: more did not
// repeat better. It returns the cases that did not fail.
func (s *Session) runGroup(
	ctx context.Context, batch []*pending, length time.Duration, failed func(*pending, error) error,
) ([]*pending, error) {
	batch = slices.Clone(batch)
	for _, o := range batch {
		o.load = s.rank(o)
	}
	slices.SortStableFunc(batch, func(a, b *pending) int { return cmp.Compare(b.load, a.load) })
	passes := max(s.Settings.Passes, 1)
	if s.learns() {
		passes = 1
	}
	for pass := range passes {
		order := slices.Clone(batch)
		for i, o := range order {
			l := length
			if l == hotVisit && s.load(o) < shortShare*s.Tuning.CapWatts {
				l = hotVisit / 2
			}
			if err := s.hotVisit(ctx, o, l.Seconds(), false, s.stops(order[i+1:])); err != nil {
				if err := failed(o, err); err != nil {
					return nil, err
				}
				batch = slices.DeleteFunc(batch, func(x *pending) bool { return x == o })
			}
		}
		if pass+1 < passes {
			slices.Reverse(batch)
		}
	}
	return batch, nil
}

// concludeBatch ends capped cases that have been visited. For own, see sustainedClocks.
func (s *Session) concludeBatch(ctx context.Context, batch []*pending, own float64, stop func(error) bool) error {
	slices.SortStableFunc(batch, func(a, b *pending) int { return cmp.Compare(b.load, a.load) })
	for i, mhz := range s.sustainedClocks(batch, own) {
		if err := s.conclude(ctx, batch[i], s.sustainedResult(batch[i], mhz)); err != nil {
			if ctx.Err() != nil || stop != nil && stop(err) {
				return err
			}
		}
	}
	return nil
}

// HotLength is how long each of n capped cases of a session is visited. The controller
// keeps the mean power of a second: where a pass over all of them takes little more,
// they all run at the clock of their mean, the hungriest up to 5 % too fast on an H200.
func HotLength(n int) time.Duration {
	few := max(float64(fewCases)/float64(max(n, 1)), 1)
	return min(time.Duration(few*few*few*float64(hotVisit)), longVisit)
}

// preheat runs cases of the batch until the time of each is known and the controller's
// mean power no longer contains earlier work: a controller that averages over a second
// reacts to heavy work a second late.
func (s *Session) preheat(
	ctx context.Context, batch []*pending, total time.Duration, failed func(*pending, error) error,
) error {
	order := slices.Clone(batch)
	slices.SortStableFunc(order, func(a, b *pending) int { return cmp.Compare(s.rank(a), s.rank(b)) })
	began := s.Clock.Now()
	for {
		each := max(heatVisit, (total-(s.Clock.Now()-began))/time.Duration(max(len(order), 1)))
		each = min(each, longVisit)
		left := order[:0:0]
		for i, o := range order {
			took := s.Clock.Now() - began
			if s.learns() && took >= total {
				return nil
			}
			last := s.learns() && took+max(each, seconds(s.graphTime(o))) >= total
			err := s.hotVisit(ctx, o, each.Seconds(), true, last || s.stops(order[i+1:]))
			if err == nil {
				left = append(left, o)
			} else if err := failed(o, err); err != nil {
				return err
			}
		}
		order = left
		if len(order) == 0 || s.Clock.Now()-began >= total {
			return nil
		}
	}
}

// stops reports whether the device must not work on after a visit, given the cases that follow. Work that one process
// has queued runs within the first block of the next visit, of another process. A median of fewBlocks leaves it out.
func (s *Session) stops(next []*pending) bool {
	return len(next) == 0 || s.hotBurst(next[0], windowVisit.Seconds()).Blocks < fewBlocks
}

// hotBurst returns the burst of a visit of length seconds at full load.
func (s *Session) hotBurst(o *pending, length float64) Burst {
	q := max(o.job.Target.Quantum(), 1)
	t := max(s.guess(o), 1e-9)
	block, long := max(hotBlock, s.Settings.MinBlockSeconds), 2*hotBlock
	if s.learns() {
		block = max(windowBlock, s.Settings.MinBlockSeconds)
		long = 2 * block
	}
	n := int(min(max(math.Ceil(block/t/float64(q)), 1), maxLaunch)) * q
	blocks := int(min(max(math.Round(length/(float64(n)*t)), 1), maxHotBlocks))
	if float64(n)*t < long {
		blocks = max(blocks, s.Settings.MinSamples)
	}
	return Burst{Executions: n, Blocks: blocks}
}

const (
	maxHotBlocks = 64
	fewBlocks    = 3
)

// hotVisit runs a case for length seconds on a busy device. If heating, the visit
// contributes to the fit of time over clock but not to the result. For stop, see Burst.
func (s *Session) hotVisit(ctx context.Context, o *pending, length float64, heating, stop bool) error {
	at := s.Clock.Now()
	v := Visit{Job: o.job, Number: o.made, At: at, Idle: at - s.ended, Hot: true, Discarded: heating}
	if o.job.Visit != nil {
		o.job.Visit()
	}
	if !o.timed && s.guess(o) <= longLook {
		// Only an estimate exists, so one short burst measures the time of an execution.
		if _, err := s.hotBlocks(ctx, o, Burst{Warm: max(o.job.Target.Quantum(), 1), Executions: 1, Blocks: 1}); err != nil {
			return err
		}
		o.timed = true
	}
	b := s.hotBurst(o, length)
	b.Busy, b.Stop = true, stop
	if b.Capture = s.capture(o); heating {
		b.Capture = o.made % s.captures(o)
	}
	blocks, err := s.hotBlocks(ctx, o, b)
	if err != nil {
		return err
	}
	seen := condense(blocks, b)
	for _, x := range blocks {
		if x.ClockMHz > 0 {
			seen.clocks = append(seen.clocks, x.ClockMHz)
			if !o.job.Learn {
				o.points = append(o.points, block{math.Log(x.ClockMHz), math.Log(x.Seconds / float64(executions(x, b)))})
			}
		}
	}
	if o.job.Learn {
		o.follow(seen)
		if s.learns() && o.hungry() && seen.clock > 0 && at-s.hotBegan >= windowSettle {
			s.Capped = append(s.Capped, CappedClock{seen.clock, o.droop})
		}
	}
	if len(seen.clocks) != len(blocks) {
		seen.clocks = nil
	}
	o.clock = seen.clock
	o.made++
	s.Visits++
	if heating {
		s.Discarded++
	} else {
		o.visits = append(o.visits, seen)
	}
	if s.Trace != nil {
		v.Blocks = blocks
		s.Trace(v)
	}
	return nil
}

// follow adds the medians of a visit to the fit of time over clock of a learned case. The fit needs the visit on the
// recovered device, at another clock, as much as those of many blocks, and the first block of a visit can contain a
// wait for the host: so single blocks do not count.
func (o *pending) follow(v visit) {
	if v.clock > 0 {
		o.points = append(o.points, block{math.Log(v.clock), math.Log(v.median)})
	}
}

// hotBlocks runs a burst and adds its time and energy to the session's.
func (s *Session) hotBlocks(ctx context.Context, o *pending, b Burst) ([]Block, error) {
	began := s.Clock.Now()
	blocks, err := o.job.Target.Burst(ctx, b)
	s.ended = s.Clock.Now()
	s.hotEnded = s.ended
	o.spent += s.ended - began
	if err != nil {
		return nil, err
	}
	if err := checkBlocks(blocks, b); err != nil {
		return nil, err
	}
	seen := condense(blocks, b)
	o.seconds = seen.median
	n := b.Warm
	for _, x := range blocks {
		n += executions(x, b)
	}
	o.execs += n
	s.cool(s.ended)
	s.spend(float64(n)*seen.median, o.job.Watts)
	return blocks, nil
}

// CappedClock is the clock that a capped case of which only the droop is known had in a window, in MHz, and its droop.
type CappedClock struct{ clock, droop float64 }

// sustainedClocks returns the clock that the power cap leaves every case of a batch, in MHz; 0 if no clock could
// be read. It is the one that the case and its neighbours had in all passes, corrected by how much further than
// theirs the case lowers the clock at once, and for a share of own the one that it had itself (in logarithms). For
// learned cases see learnedClocks.
func (s *Session) sustainedClocks(batch []*pending, own float64) []float64 {
	seen := make([]float64, len(batch))
	for i, o := range batch {
		var xs []float64
		for _, v := range o.visits {
			if v.clock > 0 {
				xs = append(xs, math.Log(v.clock))
			}
		}
		seen[i] = Mean(xs)
	}
	out := make([]float64, len(batch))
	if s.learns() {
		s.learnedClocks(batch, seen, out)
		return out
	}
	droops := make([]float64, len(batch))
	for i, o := range batch {
		droops[i] = math.Log(o.droop)
		if o.droop <= 0 {
			droops[i] = math.NaN()
		}
	}
	for i := range batch {
		clock, ok := s.neighbours(batch, i, seen)
		if !ok {
			continue
		}
		if usual, ok := s.neighbours(batch, i, droops); ok {
			clock += droopFollows * (droops[i] - usual)
		}
		out[i] = math.Exp((1-own)*clock + own*seen[i])
	}
	return out
}

// learnedClocks fills in the clocks of cases of which only the droop is known, given those that they had (in
// logarithms). They are on a line over the droop through the visits to capped cases so far: the clocks of visits
// scatter around it by 3 % (standard deviation). From learnShare on they rise to the clock of the droop at slowShare.
// Cases without a plausible droop, those whose clock hardly moved, and all before the first capped case keep the clock
// that they had.
func (s *Session) learnedClocks(batch []*pending, seen, out []float64) {
	s.Capped = slices.Clip(s.Capped[max(0, len(s.Capped)-mostCapped):])
	level, follows := droopLine(s.Capped)
	line := func(droop float64) float64 { return (1 - settleShare) * math.Exp(level+follows*math.Log(droop)) }
	for i, o := range batch {
		switch {
		case math.IsNaN(seen[i]):
		case o.droop < leastShare || len(s.Capped) == 0 || !o.moved():
			out[i] = math.Exp(seen[i])
		default:
			rises := max(o.droop-learnShare, 0) / (slowShare - learnShare)
			clock := line(min(o.droop, learnShare))
			out[i] = clock + rises*(slowShare*s.Level-clock)
		}
	}
}

// moved reports whether the clock differed enough between visits to show how the case follows it.
func (o *pending) moved() bool {
	least, most := math.Inf(1), math.Inf(-1)
	for _, p := range o.points {
		least, most = min(least, p.clock), max(most, p.clock)
	}
	return most-least > 2*priorMoves
}

// droopLine returns the line through the logarithms of droops and clocks. Its level is a median, so a few cases that
// the power cap does not limit change only its slope.
func droopLine(all []CappedClock) (level, follows float64) {
	var xs, ys []float64
	for _, c := range all {
		xs, ys = append(xs, math.Log(c.droop)), append(ys, math.Log(c.clock))
	}
	mx, my, sxx, sxy := Mean(xs), Mean(ys), lineMoves*lineMoves*lineCases, lineFollows*lineMoves*lineMoves*lineCases
	for i := range xs {
		sxx += (xs[i] - mx) * (xs[i] - mx)
		sxy += (xs[i] - mx) * (ys[i] - my)
	}
	follows = sxy / sxx
	for i := range ys {
		ys[i] -= follows * xs[i]
	}
	return Median(ys), follows
}

// ownShare is how much of a case's clock is what its own visits had, where they are so
// long: those of 200 ms are mostly the case's own second, those of 13 ms hardly. Over
// the rows of five batches of 45 on four H200s, 0.6 in place of 0 brought sums of
// products nearer to their layers and rows to those of torch, and repeated as well;
// all of it repeated worse.
func ownShare(length time.Duration) float64 {
	return max(0, float64(length-hotVisit)/float64(longVisit-hotVisit))
}

// neighbours returns the value of cases with the load of case i of a batch, which is in the order of the load: a local
// line through its own value and those of its neighbours. It is unknown if the case has none itself.
func (s *Session) neighbours(batch []*pending, i int, values []float64) (float64, bool) {
	if math.IsNaN(values[i]) {
		return 0, false
	}
	n := len(batch)
	width := min(smoothCases, n/6)
	scale := max(smoothShare*s.Tuning.CapWatts, 1e-9)
	var sw, sx, sy, sxx, sxy float64
	for j := max(0, i-width); j <= min(n-1, i+width); j++ {
		y := values[j]
		if math.IsNaN(y) {
			continue
		}
		x := (batch[j].load - batch[i].load) / scale
		w := (1 - math.Abs(float64(i-j))/float64(width+1)) * math.Exp(-x*x)
		sw, sx, sy = sw+w, sx+w*x, sy+w*y
		sxx, sxy = sxx+w*x*x, sxy+w*x*y
	}
	mx, my := sx/sw, sy/sw
	slope := (sxy - sw*mx*my) / (sxx - sw*mx*mx + 0.04*sw)
	return my - slope*mx, true
}

// slope returns how a case's time follows the clock: minus d ln(time) / d ln(clock).
// 1 is fully, 0 not at all.
func slope(points []block) float64 {
	if len(points) == 0 {
		return 0
	}
	var mx, my float64
	for _, p := range points {
		mx, my = mx+p.clock, my+p.seconds
	}
	n := float64(len(points))
	mx, my = mx/n, my/n
	var sxx, sxy float64
	for _, p := range points {
		sxx += (p.clock - mx) * (p.clock - mx)
		sxy += (p.clock - mx) * (p.seconds - my)
	}
	prior := n * priorMoves * priorMoves
	return min(max((prior*priorSlope-sxy)/(prior+sxx), 0), maxSlope)
}

// sustainedResult returns the case's result with its latency at a clock of mhz, or as
// measured if mhz is 0.
func (s *Session) sustainedResult(o *pending, mhz float64) Measured {
	r := Measured{
		Passes: len(o.visits), Executions: o.execs, UsedGraph: true, Protocol: ProtocolAdaptive,
		OperatingPoint: PointSustained, PassSpread: Spread(medians(o.visits)), ClockMHz: mhz, Spent: o.spent,
	}
	e := slope(o.points)
	var samples, lengths, ready, own []float64
	var medians []float64
	for _, v := range o.visits {
		at := slices.Clone(v.perExec)
		if mhz > 0 && v.clocks != nil {
			for i := range at {
				at[i] *= math.Pow(v.clocks[i]/mhz, e)
			}
			own = append(own, v.clock)
		}
		samples = append(samples, at...)
		medians = append(medians, Median(at))
		lengths = append(lengths, v.length)
		if v.ready > 0 {
			ready = append(ready, v.ready)
		}
		merge(&r.Throttled, v.thrott)
		merge(&r.LaunchBound, v.bound)
		r.UsedGraph = r.UsedGraph && v.graph
	}
	if len(own) > 0 {
		r.ClockSeenMHz, r.ClockSlope = Mean(own), &e
	}
	r.statistics(medians, samples, lengths)
	if len(ready) > 0 {
		r.ReadyMHz = Median(ready)
	}
	return r
}

// point returns the operating point of rows of cases that are visited one by one.
func (s *Session) point() string {
	if s.Settings.WarmupSeconds > 0 {
		return PointSustained // every visit begins with a soak of the case
	}
	return s.Settings.OperatingPoint
}
