package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Job is one case of a session.
type Job struct {
	Target Burster
	// Seconds estimates one execution; 0 when nothing is known.
	Seconds float64
	// Watts estimates what the device draws above idle while the case runs, at
	// full clock; it decides how long the device must recover.
	Watts float64
	// Visit is told before every visit; it may be nil.
	Visit func()
	// Done is told once: with a result, or with the error that ended the case.
	// The session does not use the target after that.
	Done func(Result, error)
}

// Tuning are the constants of a session that belong to a device rather than to
// a plan.
type Tuning struct {
	// RecoverWatts is how much energy per second the device's power controller
	// forgets: the mean power above idle that leaves the clock alone.
	RecoverWatts float64
	// HeatJoules is how much unforgotten energy a visit may find.
	HeatJoules float64
	// LookHeatJoules is the same for a second look.
	LookHeatJoules float64
	// Gap is the least pause before a visit.
	Gap time.Duration
	// Separation is the least time between two visits to a case.
	Separation time.Duration
	// LowClock is how far (as a share) a visit's clock may lie below the highest
	// clock of the same case before it is looked at again.
	LowClock float64
}

// DefaultTuning suits a GPU of so many watts above idle.
func DefaultTuning(watts float64) Tuning {
	if watts <= 0 {
		watts = 600
	}
	return Tuning{
		RecoverWatts:   watts * 0.4,
		HeatJoules:     0.05,
		LookHeatJoules: 0.02,
		Gap:            300 * time.Microsecond,
		Separation:     20 * time.Millisecond,
		LowClock:       0.02,
	}
}

// Visit is what a session saw at one visit, for those who want every detail.
type Visit struct {
	Job    *Job
	Number int           // of this case, from 0
	At     time.Duration // when it began
	Idle   time.Duration // since the visit before it ended
	Heat   float64       // joules that it found
	Blocks []Block
	Look   bool // beyond the planned passes
}

// Session measures many cases side by side: each is visited several times, with
// other cases between, so that no row depends on its neighbours. Visits of
// cases that draw much power are spaced so that the device's power controller
// has forgotten the one before; cases that draw little fill the time.
type Session struct {
	Settings Settings
	Tuning   Tuning
	Clock    Clock
	// Rand draws the order.
	Rand *rand.Rand
	// Trace receives every visit; it may be nil.
	Trace func(Visit)

	open   []*open
	heat   float64
	heatAt time.Duration
	ended  time.Duration // when the last visit ended
	// Busy is the device time of all blocks and warm-ups so far.
	Busy time.Duration
	// Visits counts all visits so far, Looks those beyond the planned passes.
	Visits, Looks int
}

// open is a case that is not ended.
type open struct {
	job     *Job
	seconds float64 // best estimate of one execution
	visits  []visit
	ready   time.Duration // not to be visited before
	order   float64       // drawn anew for every visit
	execs   int
}

// visit is one visit, condensed.
type visit struct {
	perExec []float64 // of each block, seconds
	median  float64
	clock   float64 // median over the blocks; 0 if unknown
	length  float64 // median block length, seconds
	thrott  bool
	graph   bool
	look    bool
}

// Run measures the jobs of in until it is closed and every job is done, or ctx
// ends. Jobs that are not done then are not told. A job's error ends that job
// alone unless stop says otherwise of it: then Run returns it.
func (s *Session) Run(ctx context.Context, in <-chan *Job, stop func(error) bool) error {
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
			if len(s.open) == 0 {
				return nil
			}
		}
		o, wait := s.pick()
		if wait > 0 {
			if err := s.Clock.Sleep(ctx, wait); err != nil {
				return err
			}
			continue
		}
		if err := s.visit(ctx, o); err != nil && stop != nil && stop(err) {
			return err
		}
	}
}

// receive takes what jobs there are; it waits for one only when there is none
// to work on. more is false once in is closed (or nil).
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
		s.open = append(s.open, &open{job: j, seconds: j.Seconds, order: s.Rand.Float64()})
	}
}

// pick chooses the next visit, or says how long to wait for one.
func (s *Session) pick() (*open, time.Duration) {
	now := s.Clock.Now()
	var best *open
	soonest := time.Duration(math.MaxInt64)
	for _, o := range s.open {
		at := max(o.ready, s.ended+s.Tuning.Gap, now+s.cooling(now, s.allowed(o)))
		if at > now {
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

// before orders visits that could begin now: those that need the device cool
// come first while it is, then cases that were begun, then by lot.
func (s *Session) before(a, b *open) bool {
	if ha, hb := s.heavy(a), s.heavy(b); ha != hb {
		return ha
	}
	if la, lb := len(a.visits) >= s.Settings.Passes, len(b.visits) >= s.Settings.Passes; la != lb {
		return la
	}
	return a.order < b.order
}

// heavy says whether a visit's energy is more than what the device forgets in
// passing.
func (s *Session) heavy(o *open) bool { return s.energy(o) > s.Tuning.HeatJoules }

// energy estimates the joules of the next visit, above idle.
func (s *Session) energy(o *open) float64 {
	b := s.burst(o)
	n := float64(b.Warm + b.Blocks*b.Executions)
	return n * s.guess(o) * o.job.Watts
}

func (s *Session) guess(o *open) float64 {
	if o.seconds > 0 {
		return o.seconds
	}
	return s.Settings.MinBlockSeconds
}

// allowed is the heat that a visit may find. Cases that draw little power do
// not mind.
func (s *Session) allowed(o *open) float64 {
	if len(o.visits) >= s.Settings.Passes {
		return s.Tuning.LookHeatJoules
	}
	if !s.heavy(o) && o.job.Watts < s.Tuning.RecoverWatts {
		return math.Inf(1)
	}
	return s.Tuning.HeatJoules
}

// cooling is how long it takes until no more than allowed joules are left.
func (s *Session) cooling(now time.Duration, allowed float64) time.Duration {
	left := s.heat - (now-s.heatAt).Seconds()*s.Tuning.RecoverWatts
	if left <= allowed || s.Tuning.RecoverWatts <= 0 {
		return 0
	}
	return seconds((left - allowed) / s.Tuning.RecoverWatts)
}

// burst is the shape of a case's next visit.
func (s *Session) burst(o *open) Burst {
	q := max(o.job.Target.Quantum(), 1)
	t := s.guess(o)
	n := int(math.Ceil(s.Settings.MinBlockSeconds / t / float64(q)))
	n = min(max(n, 1), maxLaunches) * q
	b := Burst{Warm: q, Executions: n, Blocks: s.Settings.MinSamples}
	// Long executions need no repetition against the timer's steps, and their
	// repetition is what heats the device.
	switch block := float64(n) * t; {
	case block > 2e-3:
		b.Blocks = 1
	case block > 500e-6:
		b.Blocks = min(b.Blocks, 2)
	}
	if float64(q)*t > 200e-6 {
		b.Warm = 0
	}
	return b
}

// maxLaunches bounds what is queued for one block: a device queues about a
// thousand launches before the host must wait.
const maxLaunches = 64

func (s *Session) visit(ctx context.Context, o *open) error {
	now := s.Clock.Now()
	s.cool(now)
	v := Visit{Job: o.job, Number: len(o.visits), At: now, Idle: now - s.ended, Heat: s.heat}
	v.Look = len(o.visits) >= s.Settings.Passes
	if o.job.Visit != nil {
		o.job.Visit()
	}
	blocks, b, err := s.run(ctx, o)
	end := s.Clock.Now()
	s.ended = end
	s.cool(end)
	if err != nil {
		s.drop(o)
		o.job.Done(Result{}, err)
		return err
	}
	s.Visits++
	if v.Look {
		s.Looks++
	}
	seen := condense(blocks, b)
	seen.look = v.Look
	o.seconds = seen.median
	n := 0
	for _, x := range blocks {
		n += executions(x, b)
	}
	o.execs += n + b.Warm
	busy := float64(n+b.Warm) * seen.median
	s.Busy += seconds(busy)
	// cool counted the visit itself as recovery; what it added comes on top.
	s.heat += busy * (o.job.Watts + s.Tuning.RecoverWatts)
	o.visits = append(o.visits, seen)
	o.order = s.Rand.Float64()
	o.ready = end + s.Tuning.Separation
	if s.Trace != nil {
		v.Blocks = blocks
		s.Trace(v)
	}
	if s.agreed(o) {
		s.drop(o)
		o.job.Done(s.result(o), nil)
	}
	return nil
}

// run makes the visit; a first visit whose estimate was far off is repeated at
// once with the right number of executions.
func (s *Session) run(ctx context.Context, o *open) ([]Block, Burst, error) {
	for try := 0; ; try++ {
		b := s.burst(o)
		if o.seconds == 0 {
			b = Burst{Warm: 0, Executions: 1, Blocks: 1}
		}
		blocks, err := o.job.Target.Burst(ctx, b)
		if err != nil {
			return nil, b, err
		}
		if len(blocks) == 0 {
			return nil, b, errors.New("a burst without blocks")
		}
		for _, x := range blocks {
			if !(x.Seconds > 0) || math.IsInf(x.Seconds, 0) {
				return nil, b, fmt.Errorf("%w: %v s for %d executions", ErrTimer, x.Seconds, executions(x, b))
			}
		}
		known := o.seconds > 0
		o.seconds = condense(blocks, b).median
		if known && (len(o.visits) > 0 || s.fits(o, b)) || try >= 3 {
			return blocks, b, nil
		}
	}
}

// fits says whether the burst was near enough to what the case needs.
func (s *Session) fits(o *open, was Burst) bool {
	is := s.burst(o)
	r := float64(was.Executions) / float64(is.Executions)
	return r > 0.6 && r < 1.7 && was.Blocks >= is.Blocks && was.Blocks <= is.Blocks+1
}

// cool lets the heat decay until now.
func (s *Session) cool(now time.Duration) {
	s.heat = max(0, s.heat-(now-s.heatAt).Seconds()*s.Tuning.RecoverWatts)
	s.heatAt = now
}

func (s *Session) drop(o *open) {
	for i, x := range s.open {
		if x == o {
			s.open = append(s.open[:i], s.open[i+1:]...)
			return
		}
	}
}

func executions(x Block, b Burst) int {
	if x.Executions > 0 {
		return x.Executions
	}
	return b.Executions
}

func condense(blocks []Block, b Burst) visit {
	v := visit{graph: true}
	var clocks, lengths []float64
	for _, x := range blocks {
		v.perExec = append(v.perExec, x.Seconds/float64(executions(x, b)))
		lengths = append(lengths, x.Seconds)
		if x.ClockMHz > 0 {
			clocks = append(clocks, x.ClockMHz)
		}
		v.thrott = v.thrott || x.Throttled
		v.graph = v.graph && x.UsedGraph
	}
	v.median, v.length = Median(v.perExec), Median(lengths)
	if len(clocks) > 0 {
		v.clock = Median(clocks)
	}
	return v
}

// agreed says whether a case has what it needs: its passes, and either passes
// that agree or all the looks that the settings allow.
func (s *Session) agreed(o *open) bool {
	n := len(o.visits)
	if n < s.Settings.Passes {
		return false
	}
	if n >= s.Settings.MaxPasses {
		return true
	}
	good := s.good(o)
	return len(good) >= s.Settings.Passes && Spread(medians(good[:s.Settings.Passes])) <= s.Settings.PassTolerance
}

// good are the visits that count, the fastest first: a visit at a low clock, or
// beside something that disturbed it, is slower than the case is.
func (s *Session) good(o *open) []visit {
	vs := append([]visit(nil), o.visits...)
	for i := 1; i < len(vs); i++ {
		for j := i; j > 0 && vs[j].median < vs[j-1].median; j-- {
			vs[j], vs[j-1] = vs[j-1], vs[j]
		}
	}
	return vs
}

func medians(vs []visit) []float64 {
	var out []float64
	for _, v := range vs {
		out = append(out, v.median)
	}
	return out
}

// result is the case's row: the median over the fastest Passes visits.
func (s *Session) result(o *open) Result {
	good := s.good(o)
	good = good[:min(len(good), max(s.Settings.Passes, 1))]
	var samples, lengths, clocks []float64
	r := Result{
		Passes: len(o.visits), Executions: o.execs, UsedGraph: true, Protocol: ProtocolAdaptive,
		PassSpread: Spread(medians(o.visits)),
	}
	for _, v := range good {
		samples = append(samples, v.perExec...)
		lengths = append(lengths, v.length)
		if v.clock > 0 {
			clocks = append(clocks, v.clock)
		}
		r.Throttled = r.Throttled || v.thrott
		r.UsedGraph = r.UsedGraph && v.graph
	}
	r.Latency = Mean(medians(good)) * 1e3
	r.Samples = len(samples)
	r.RelStdev = RelStdev(samples)
	r.P10, r.P90 = Percentile(samples, 0.1)*1e3, Percentile(samples, 0.9)*1e3
	r.BlockMillis = Median(lengths) * 1e3
	if len(clocks) > 0 {
		r.ClockMHz = Median(clocks)
	}
	return r
}
