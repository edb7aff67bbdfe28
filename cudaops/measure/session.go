package measure

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Job is one case of a session.
type Job struct {
	Target Burster
	// Tag is the caller's own.
	Tag any
	// Seconds estimates one execution; 0 if unknown.
	Seconds float64
	// Watts estimates what the device draws above idle while the case runs, at
	// full clock; it decides how long the device must recover.
	Watts float64
	// Draw estimates the watts above idle that the device would draw at full clock,
	// if an execution takes the given seconds at a share of the full clock. If nil, Watts
	// is used.
	Draw func(seconds, clockShare float64) float64
	// Rank is Draw with other weights, to order the capped cases of a batch. If nil, Draw
	// orders them.
	Rank func(seconds, clockShare float64) float64
	// Learn is set if nothing is known of what the case draws: whether the power cap
	// holds it, and its place in the order, follow from how far it lowers the clock
	// of a recovered device. Draw and Rank are nil then.
	Learn bool
	// Visit, if not nil, is called before every visit.
	Visit func()
	// Finish runs on the device once the case is measured and before Done, for
	// what needs the device to itself (power); it returns the energy that it
	// spent above idle, in joules. It may be nil.
	Finish func(context.Context, *Measured) (joules float64, err error)
	// Done is called once, with a result or with the error that ended the case. The
	// session does not use the target afterwards.
	Done func(Measured, error)
}

// Tuning are the constants of a session that belong to a device rather than to
// a plan.
type Tuning struct {
	// RecoverWatts is the mean power above idle that leaves the clock alone:
	// energy is forgotten at this rate.
	RecoverWatts float64
	// HeatJoules is how much energy, not yet forgotten, a visit may find.
	HeatJoules float64
	// HotJoules divides the cases: a visit that spends more belongs to the hot
	// ones, which are visited after one another.
	HotJoules float64
	// Gap is the least pause before a visit.
	Gap time.Duration
	// Separation is the least time between two visits to a case.
	Separation time.Duration
	// ReadyShare is the share of the highest clock seen that the device must
	// have, with nothing running, before a cool case is visited.
	ReadyShare float64
	// MaxWait bounds the wait for that clock. After it, the current clock is taken as
	// the device's, and rows are marked as throttled.
	MaxWait time.Duration
	// CapWatts is the power above idle that the cap leaves.
	CapWatts float64
	// Preheat is how long the device runs capped work before such work counts:
	// longer than what its power controller takes the mean of.
	Preheat time.Duration
	// Probe looks at every capped case on a recovered device first: how far its work
	// lowers the clock at once corrects the clock that the cap leaves it.
	Probe bool
	// HotPass bounds a pass over capped cases. If their order is learned, they are divided into groups
	// whose passes take HotPass. 0 means no bound.
	HotPass time.Duration
	// Locked is set if the device's clocks are locked. The droop is unknown then, and
	// every Learn case runs with the capped ones.
	Locked bool
}

// DefaultTuning suits a GPU of so many watts above idle.
func DefaultTuning(watts float64) Tuning {
	if watts <= 0 {
		watts = 600
	}
	return Tuning{
		RecoverWatts: watts * 0.45,
		HeatJoules:   watts * 0.5e-3,
		HotJoules:    watts * 1e-3,
		Gap:          200 * time.Microsecond,
		Separation:   20 * time.Millisecond,
		ReadyShare:   0.985,
		MaxWait:      500 * time.Millisecond,
		CapWatts:     watts,
		Preheat:      1300 * time.Millisecond,
		Probe:        true,
	}
}

// Visit describes one visit of a session, for Session.Trace.
type Visit struct {
	Job    *Job
	Number int           // of this case, from 0; discarded visits count
	At     time.Duration // when it began
	Idle   time.Duration // since the visit before it ended
	Heat   float64       // joules that it found
	Blocks []Block
	Hot    bool // it was made among hot cases
	Look   bool // beyond the planned passes
	// Discarded is set if the device was not ready; the visit does not count.
	Discarded bool
}

// Session measures many cases side by side: each is visited several times, with
// other cases between, so that no row depends on its neighbours.
//
// A GPU's power controller lowers the clock some ten milliseconds after work
// began that draws more than the power cap, and raises it step by step during
// the hundred milliseconds after that work ended. So the session keeps the mean
// power of what it does under the cap, visits the cases whose one visit is
// enough to heat the device after one another, and lets all others wait until
// the clock, read on the device with nothing running, is back.
//
// With WarmupSeconds every visit begins with so much of the case itself instead,
// and the row shows the clock that the case holds for good: the full one where it
// draws little, the power cap's where it draws much.
type Session struct {
	// Settings: MinBlockSeconds, MinSamples (blocks of a visit), Passes (visits),
	// MaxPasses, PassTolerance and WarmupSeconds hold; the settings about adapting
	// the samples of one pass do not, because further samples of one window are not
	// independent.
	Settings Settings
	Tuning   Tuning
	Clock    Clock
	// Rand draws the order.
	Rand *rand.Rand
	// Ready returns the device's clock with nothing running, in MHz. It may be nil if the
	// device cannot report its clock; visits then start without waiting.
	Ready func(context.Context) (float64, error)
	// Trace receives every visit; it may be nil.
	Trace func(Visit)
	// Batch is how many jobs can be open at once; 0 if there is no such limit. At
	// the sustained point the session gathers as many before it runs them.
	Batch int
	// More, if not nil, is called at the sustained point when only capped cases are
	// left. It returns further jobs, which join them; none if there are none.
	More func(context.Context) []*Job
	// Level is the clock of a ready device, in MHz; 0 if the session has to learn it. It
	// may be carried over to the next session. After a session that gave up waiting it
	// is the clock that was waited for.
	Level float64
	// Capped are the clocks of cases of which only the droop is known, if the power cap lowered them. They may be
	// carried over from earlier sessions.
	Capped []CappedClock

	open    []*pending
	hot     bool    // the phase
	heat    float64 // joules not yet forgotten
	heatAt  time.Duration
	ended   time.Duration // when the last visit ended
	unsure  bool          // the device may not be ready
	refused int           // visits in a row
	gaveUp  bool          // waiting for the clock was given up
	top     float64       // highest clock seen, MHz
	carried float64       // Level when the session began
	read    []float64     // the last readings of the ready clock, MHz

	hotBegan   time.Duration // when capped work began after a rest
	hotEnded   time.Duration // when the last visit to a capped case ended
	gathered   int           // open cases when the last one came
	gatheredAt time.Duration // and when that was

	// Busy is the device time of all executions so far; Waited the time spent
	// waiting for the clock.
	Busy, Waited time.Duration
	// Visits counts all visits so far, Looks those beyond the planned passes,
	// Discarded those that did not count.
	Visits, Looks, Discarded int
}

// pending is a case that has not ended.
type pending struct {
	job     *Job
	seconds float64 // best estimate of one execution
	visits  []visit
	made    int           // visits, discarded ones too
	ready   time.Duration // not to be visited before
	order   float64       // drawn anew for every visit
	execs   int

	timed  bool    // seconds was measured, at the sustained point
	clock  float64 // under load at the last visit, MHz; 0 if unknown
	droops bool    // the clock under load was below droopShare: the case is capped
	load   float64 // watts above idle at full clock by Rank, in whose order a batch is visited
	probed bool    // it was looked at on a device that had recovered
	droop  float64 // clock under load over that of the ready device, then; 0 if unknown
	looks  int     // that found a device that was not ready
	points []block
	spent  time.Duration // in the visits of a batch
}

// Run measures the jobs of in until it is closed and every job is done, or ctx
// ends; Done is not called for jobs that are open then. An error of a job ends that job
// alone, unless stop returns true for it: then Run returns the error.
func (s *Session) Run(ctx context.Context, in <-chan *Job, stop func(error) bool) error {
	s.unsure = true
	s.top, s.carried, s.read = max(s.top, s.Level), s.Level, nil
	defer func() {
		if s.gaveUp {
			// The next session has to detect this again.
			s.Level, s.gaveUp = s.top, false
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.receive(ctx, in)
		if err != nil {
			return err
		}
		if !more {
			in = nil
		}
		if len(s.open) == 0 {
			if in == nil {
				return nil
			}
			continue
		}
		if s.engine() && !slices.ContainsFunc(s.open, func(o *pending) bool { return !s.isHot(o) }) {
			if s.gather(in != nil) {
				err = s.Clock.Sleep(ctx, batchPoll)
			} else if !s.more(ctx) {
				err = s.runBatch(ctx, stop)
			}
			if err != nil {
				return err
			}
			continue
		}
		o, wait := s.pick()
		if wait > 0 {
			if err := s.Clock.Sleep(ctx, wait); err != nil {
				return err
			}
			continue
		}
		if err := s.visit(ctx, o); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if stop != nil && stop(err) {
				return err
			}
		}
	}
}

// more opens the jobs that More returns, and reports whether there are any.
func (s *Session) more(ctx context.Context) bool {
	if s.More == nil {
		return false
	}
	jobs := s.More(ctx)
	for _, j := range jobs {
		s.add(j)
	}
	s.unsure = s.unsure || len(jobs) > 0
	return len(jobs) > 0
}

func (s *Session) add(j *Job) {
	s.open = append(s.open, &pending{job: j, seconds: j.Seconds, order: s.Rand.Float64()})
}

// receive takes the jobs that are available. It waits for one only if no case is
// open. more is false once in is closed or nil.
func (s *Session) receive(ctx context.Context, in <-chan *Job) (more bool, err error) {
	if in == nil {
		return false, nil
	}
	for {
		var j *Job
		ok := true
		if len(s.open) == 0 {
			select {
			case j, ok = <-in:
			case <-ctx.Done():
				return true, ctx.Err()
			}
		} else {
			select {
			case j, ok = <-in:
			default:
				return true, nil
			}
		}
		if !ok {
			return false, nil
		}
		s.add(j)
	}
}

// pick returns the next case to visit, or nil and the time until one can be visited.
func (s *Session) pick() (*pending, time.Duration) {
	s.choosePhase()
	now := s.Clock.Now()
	earliest := max(s.ended+s.Tuning.Gap, now+s.cooling(now))
	var best *pending
	soonest := time.Duration(math.MaxInt64)
	for _, o := range s.open {
		if s.isHot(o) != s.hot {
			continue
		}
		if at := max(o.ready, earliest); at > now {
			soonest = min(soonest, at)
			continue
		}
		if best == nil || s.before(o, best) {
			best = o
		}
	}
	if best != nil {
		return best, 0
	}
	return nil, max(soonest-now, time.Microsecond)
}

// choosePhase stays with the current kind of cases until none is left: going
// back to cool cases costs the time in which the clock recovers.
func (s *Session) choosePhase() {
	if s.engine() {
		return // capped cases wait for their batch
	}
	for _, o := range s.open {
		if s.isHot(o) == s.hot {
			return
		}
	}
	s.hot = !s.hot
	if !s.hot {
		s.unsure = true
	}
}

// before orders visits that could begin now: looks beyond the planned passes first,
// because they end a case; then by passes made; then at random. Those that heat the device the most come last: the
// others would have to wait for the clock.
func (s *Session) before(a, b *pending) bool {
	if la, lb := s.isLook(a), s.isLook(b); la != lb {
		return la
	}
	if la, lb := s.guess(a) > longProbe, s.guess(b) > longProbe; s.learns() && la != lb {
		return lb
	}
	if len(a.visits) != len(b.visits) {
		return len(a.visits) < len(b.visits)
	}
	return a.order < b.order
}

func (s *Session) isLook(o *pending) bool { return len(o.visits) >= s.Settings.Passes }

// isHot reports whether a case is visited without waiting for the clock, because it
// heats the device by itself or because rows are taken at the sustained point.
func (s *Session) isHot(o *pending) bool {
	if s.engine() {
		return s.capped(o)
	}
	return s.sustained() || s.energy(o) > s.Tuning.HotJoules
}

// sustained reports whether every visit begins with a soak. Pauses are useless then,
// because the device's state is that of the case itself.
func (s *Session) sustained() bool { return s.Settings.WarmupSeconds > 0 }

// energy estimates the joules of a case's next visit, above idle.
func (s *Session) energy(o *pending) float64 {
	b := s.burst(o)
	return float64(b.Warm+b.Blocks*b.Executions) * s.guess(o) * o.job.Watts
}

func (s *Session) drop(o *pending) {
	for i, x := range s.open {
		if x == o {
			s.open = append(s.open[:i], s.open[i+1:]...)
			return
		}
	}
}
