package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// visit is one visit, condensed.
type visit struct {
	perExec []float64 // of each block, seconds
	median  float64
	clock   float64 // median over the blocks; 0 if unknown
	ready   float64 // before the burst; 0 if unknown
	length  float64 // median block length, seconds
	clocks  []float64
	thrott  *bool // nil if unknown
	bound   *bool // nil if unknown
	graph   bool
	capture int // of the target's, that ran
}

// Lengths of blocks, in seconds, above which a visit has fewer blocks: a long block
// needs no repetition against the timer's resolution, and repeating it heats the device.
const (
	twoBlocks  = 300e-6
	oneBlock   = 1e-3
	noWarmup   = 200e-6
	maxLaunch  = 64 // launches of one block: a device queues about a thousand
	maxRetries = 3
	coolBlock  = 500e-6
	maxRefused = 20 // visits refused in a row before the clock is taken as it is
)

// guess returns the best estimate of one execution, in seconds.
func (s *Session) guess(o *pending) float64 {
	if o.seconds > 0 {
		return o.seconds
	}
	return s.Settings.MinBlockSeconds
}

// burst returns the shape of a case's next visit without the soak.
func (s *Session) burst(o *pending) Burst {
	b := s.shape(o)
	b.Soak = 0
	return b
}

// shape returns the burst of a visit. Blocks are longer at the sustained point,
// because the launch of the first graph must not count there.
func (s *Session) shape(o *pending) Burst {
	set := s.Settings
	if s.engine() {
		set.MinBlockSeconds = max(set.MinBlockSeconds, coolBlock)
	}
	return set.Shape(s.guess(o), o.job.Target.Quantum())
}

func (s *Session) visit(ctx context.Context, o *pending) error {
	if s.unsure && !s.hot {
		if err := s.await(ctx); err != nil {
			return s.fail(o, err)
		}
		s.unsure = false
	}
	now := s.Clock.Now()
	s.cool(now)
	if s.probes(o) {
		if o.job.Visit != nil {
			o.job.Visit()
		}
		if err := s.probe(ctx, o); err != nil {
			return s.fail(o, err)
		}
		return nil
	}
	v := Visit{Job: o.job, Number: o.made, At: now, Idle: now - s.ended, Heat: s.heat, Hot: s.hot, Look: s.isLook(o)}
	if o.job.Visit != nil {
		o.job.Visit()
	}
	blocks, b, err := s.run(ctx, o)
	end := s.Clock.Now()
	s.ended = end
	if err != nil {
		return s.fail(o, err)
	}
	o.made++
	s.Visits++
	if v.Look {
		s.Looks++
	}
	seen := condense(blocks, b)
	o.seconds, o.clock = seen.median, seen.clock
	n := b.Soak + b.Warm
	for _, x := range blocks {
		n += executions(x, b)
	}
	o.execs += n
	s.spend(float64(n)*seen.median, o.job.Watts)
	s.cool(end)
	o.order = s.Rand.Float64()
	o.ready = end + s.Tuning.Separation
	if s.accept(seen) {
		if s.gaveUp {
			yes := true
			seen.thrott = &yes
		}
		o.visits = append(o.visits, seen)
	} else {
		o.ready = end
		v.Discarded = true
	}
	if s.Trace != nil {
		v.Blocks = blocks
		s.Trace(v)
	}
	if s.engine() {
		s.noteDroop(o, seen)
		if o.job.Learn && !o.probed {
			return nil
		}
		o.droops = o.droops || !o.job.Learn && seen.ready > 0 && seen.clock > 0 && seen.clock < droopShare*seen.ready
		if s.capped(o) {
			// Visits on a recovered device do not count for a capped case.
			o.visits, o.timed = nil, true
			if o.job.Learn {
				o.follow(seen)
			}
			return nil
		}
	}
	if !s.agreed(o) {
		return nil
	}
	return s.finish(ctx, o)
}

// accept reports whether a visit counts: hot cases always, others when the device
// was ready for them.
func (s *Session) accept(v visit) bool {
	if s.hot {
		// The clock under load is only a lower bound of the ready clock.
		if s.Level > 0 {
			s.see(v.ready)
		}
		return true
	}
	if s.see(v.ready) {
		s.refused = 0
		return true
	}
	// Something heated the device without the session's knowledge.
	s.unsure = true
	s.Discarded++
	if s.refused++; s.refused >= maxRefused {
		s.giveUp(v.ready)
		s.refused = 0
	}
	return false
}

// spend accounts for executions that just ended.
func (s *Session) spend(busy, watts float64) {
	s.Busy += seconds(busy)
	s.heat += busy * watts
}

// fail ends a case with an error. An error of the context ends no case: it is
// returned and Done is not called.
func (s *Session) fail(o *pending, err error) error {
	if ctxErr(err) {
		return err
	}
	s.drop(o)
	o.job.Done(Measured{}, err)
	return err
}

func ctxErr(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (s *Session) finish(ctx context.Context, o *pending) error {
	return s.conclude(ctx, o, s.result(o))
}

// conclude ends a case with a result.
func (s *Session) conclude(ctx context.Context, o *pending, r Measured) error {
	if o.job.Finish != nil {
		joules, err := o.job.Finish(ctx, &r)
		now := s.Clock.Now()
		s.cool(now)
		s.ended = now
		s.heat += joules
		s.unsure = true
		if err != nil {
			return s.fail(o, err)
		}
	}
	s.drop(o)
	o.job.Done(r, nil)
	return nil
}

// run makes the visit. If the estimate of a first visit was far off, the visit is
// repeated at once with the right number of executions. The number of executions
// that run ahead of the blocks follows only from a measured time.
func (s *Session) run(ctx context.Context, o *pending) ([]Block, Burst, error) {
	for try := 0; ; try++ {
		b := s.burst(o)
		known := o.seconds > 0
		if !known {
			b = Burst{Executions: 1, Blocks: 1}
		}
		measured := o.made > 0 || try > 0
		if measured {
			b.Soak = s.shape(o).Soak
		}
		b.Capture = s.capture(o)
		blocks, err := o.job.Target.Burst(ctx, b)
		if err != nil {
			return nil, b, err
		}
		if err := checkBlocks(blocks, b); err != nil {
			return nil, b, err
		}
		o.seconds = condense(blocks, b).median
		ready := known && (measured || !s.sustained())
		if ready && (o.made > 0 || s.fits(o, b)) || try >= maxRetries {
			return blocks, b, nil
		}
		n := b.Soak + b.Warm
		for _, x := range blocks {
			n += executions(x, b)
		}
		o.execs += n
		s.spend(float64(n)*o.seconds, o.job.Watts)
	}
}

// checkBlocks returns an error that wraps ErrTimer if a time is not positive and finite.
func checkBlocks(blocks []Block, b Burst) error {
	if len(blocks) == 0 {
		return errors.New("a burst without blocks")
	}
	for _, x := range blocks {
		if !(x.Seconds > 0) || math.IsInf(x.Seconds, 0) {
			return fmt.Errorf("%w: %v s for %d executions", ErrTimer, x.Seconds, executions(x, b))
		}
	}
	return nil
}

// fits reports whether the burst had about as many executions as the case needs.
func (s *Session) fits(o *pending, was Burst) bool {
	is := s.burst(o)
	r := float64(was.Executions) / float64(is.Executions)
	return r > 0.6 && r < 1.7 && was.Blocks >= is.Blocks
}

func executions(x Block, b Burst) int {
	if x.Executions > 0 {
		return x.Executions
	}
	return b.Executions
}

func condense(blocks []Block, b Burst) visit {
	v := visit{graph: true, ready: blocks[0].ReadyMHz, capture: b.Capture}
	var clocks, lengths []float64
	for _, x := range blocks {
		v.perExec = append(v.perExec, x.Seconds/float64(executions(x, b)))
		lengths = append(lengths, x.Seconds)
		if x.ClockMHz > 0 {
			clocks = append(clocks, x.ClockMHz)
		}
		merge(&v.thrott, x.Throttled)
		merge(&v.bound, x.LaunchBound)
		v.graph = v.graph && x.UsedGraph
	}
	v.median, v.length = Median(v.perExec), Median(lengths)
	if len(clocks) > 0 {
		v.clock = Median(clocks)
	}
	return v
}

// agreed reports whether a case needs no further visit: all passes are made, and
// they agree or MaxPasses is reached.
func (s *Session) agreed(o *pending) bool {
	if !s.isHot(o) {
		// Visits from before the device's full clock was known do not count.
		o.visits = slices.DeleteFunc(o.visits, func(v visit) bool {
			return v.ready > 0 && v.ready < s.Tuning.ReadyShare*s.Level
		})
	}
	n := len(o.visits)
	switch {
	case n < s.Settings.Passes:
		return false
	case n >= s.Settings.MaxPasses:
		return true
	}
	if Spread(medians(s.best(o))) <= s.Settings.PassTolerance {
		return true
	}
	// Captures that differ do not disturb: each has to agree with itself.
	each := s.captures(o)
	if each < 2 || s.sustained() {
		return false
	}
	for c := range each {
		mine := fastest(of(o.visits, c))
		if len(mine) < 2 || Spread(medians(mine[:2])) > s.Settings.PassTolerance {
			return false
		}
	}
	return true
}

// captures returns how many captures of the case's graphs the visits rotate through.
func (s *Session) captures(o *pending) int {
	if c, ok := o.job.Target.(Capturer); ok {
		return max(min(c.Captures(), s.Settings.Passes), 1)
	}
	return 1
}

// capture returns the capture for the next visit: the first of those with the fewest visits.
func (s *Session) capture(o *pending) int {
	turn, least := 0, len(o.visits)+1
	for c := range s.captures(o) {
		if n := len(of(o.visits, c)); n < least {
			turn, least = c, n
		}
	}
	return turn
}

// best returns the visits that count, as many as there are planned passes.
// Disturbances make a visit slower, never faster, so these are the fastest visits,
// the same number of each capture. At the sustained point all visits count,
// because a power controller deviates in both directions.
func (s *Session) best(o *pending) []visit {
	if s.sustained() {
		return o.visits
	}
	n, passes := s.captures(o), max(s.Settings.Passes, 1)
	var out []visit
	for c := range n {
		vs := fastest(of(o.visits, c))
		out = append(out, vs[:min(len(vs), (passes+n-1-c)/n)]...)
	}
	return out
}

// of returns the visits of one capture.
func of(vs []visit, capture int) []visit {
	var out []visit
	for _, v := range vs {
		if v.capture == capture {
			out = append(out, v)
		}
	}
	return out
}

// fastest sorts visits by their medians.
func fastest(vs []visit) []visit {
	vs = slices.Clone(vs)
	slices.SortStableFunc(vs, func(a, b visit) int { return cmp.Compare(a.median, b.median) })
	return vs
}

func medians(vs []visit) []float64 {
	var out []float64
	for _, v := range vs {
		out = append(out, v.median)
	}
	return out
}

// result returns the case's row: the mean over the best visits of their medians.
func (s *Session) result(o *pending) Measured {
	best := s.best(o)
	var samples, lengths, clocks, ready []float64
	r := Measured{
		Passes: len(o.visits), Executions: o.execs, UsedGraph: true, Protocol: ProtocolAdaptive,
		PassSpread: Spread(medians(o.visits)), OperatingPoint: s.point(),
	}
	for _, v := range best {
		samples = append(samples, v.perExec...)
		lengths = append(lengths, v.length)
		if v.clock > 0 {
			clocks = append(clocks, v.clock)
		}
		if v.ready > 0 {
			ready = append(ready, v.ready)
		}
		merge(&r.Throttled, v.thrott)
		merge(&r.LaunchBound, v.bound)
		r.UsedGraph = r.UsedGraph && v.graph
	}
	r.statistics(medians(best), samples, lengths)
	if len(clocks) > 0 {
		r.ClockMHz = Median(clocks)
	}
	if len(ready) > 0 {
		r.ReadyMHz = Median(ready)
	}
	return r
}
