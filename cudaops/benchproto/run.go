package benchproto

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"

	"aicplan/cudaops/driver"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/ops"
	"aicplan/systems"
)

// Protocols that are compared.
const (
	// Sustained and Recovered are sessions at these operating points.
	Sustained = measure.PointSustained
	Recovered = measure.PointRecovered
	// Soaked is a session that lets every case run for a while before it is timed.
	Soaked = "soaked"
	// Settled is what every case takes alone: SettleSeconds of it back to back,
	// the mean of the last half, over several orders. It is the truth that rows of
	// the sustained point are held to, and takes that long for every shape.
	Settled = "settled"
	// Estimated is sustained without the look at how far each capped case lowers the
	// clock at once: operations and bytes alone say what it draws.
	Estimated = "estimated"
	// Reference is the collectors' protocol.
	Reference = measure.ProtocolReference
)

// Protocols lists them all, in the order of reports.
var Protocols = []string{Sustained, Estimated, Recovered, Soaked, Settled, Reference}

// Run is one pass over all shapes.
type Run struct {
	Protocol string             `json:"protocol"`
	Seed     uint64             `json:"seed"`
	Rows     []measure.Measured `json:"rows"` // by shape
	Errors   []string           `json:"errors,omitempty"`
	Seconds  float64            `json:"seconds"`      // wall time, preparation included
	Busy     float64            `json:"busy_seconds"` // device time of all executions
	// Waited is the time spent waiting for the device's clock.
	Waited    float64 `json:"waited_seconds"`
	Visits    int     `json:"visits"`
	Looks     int     `json:"looks"`
	Discarded int     `json:"discarded"`
}

// Options choose what Measure does.
type Options struct {
	Device int    // index in PCI order
	System string // built-in spec, for estimates; "" for none
	Shapes []Shape
	// Runs of each protocol, each in its own order, and of the settled one.
	Runs, Orders int
	Seed         uint64
	// Passes, MaxPasses and PassTolerance are settings of the sessions; 0 means
	// the defaults.
	Passes, MaxPasses int
	PassTolerance     float64
	// Captures is how often a session captures the graphs of a case; 0 means as
	// often as a worker does (Settings.Captures).
	Captures int
	// Only names protocols; none means all but settled, which takes minutes,
	// estimated, and soaked where Warmup is 0.
	Only []string
	// Warmup is how long a case of the soaked protocol runs before it is timed, in
	// seconds; 0 leaves that protocol out.
	Warmup float64
	// Window is how many cases a session holds; 0 means as a worker does.
	Window int
	// Progress is told after every run; it may be nil.
	Progress func(Run)
	// Trace receives every visit; it may be nil.
	Trace func(Traced)
}

// Measure opens a GPU, runs the protocols in turns and reports. Where ctx ends
// before, the report is of the runs that are done. It locks its goroutine to its
// thread while it works.
func Measure(ctx context.Context, o Options) (*Report, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d, err := ops.Open(ops.OpenOptions{Index: o.Device})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if o.System != "" {
		spec, err := systems.Load(o.System)
		if err != nil {
			return nil, err
		}
		d.Peaks = ops.PeaksOf(spec)
	}
	if o.Window == 0 {
		o.Window = 192
	}
	b := &Bench{Device: d, Shapes: o.Shapes, Settings: o.settings(), Tuning: measure.DefaultTuning(d.Peaks.Watts * 0.85), Window: o.Window, Captures: o.Captures}
	var runs []Run
	for i := range max(o.Runs, o.Orders, 1) {
		for _, protocol := range Protocols {
			if !o.wants(protocol) || i >= o.times(protocol) {
				continue
			}
			if o.Trace != nil {
				b.Trace = func(shape int, v measure.Visit) {
					o.Trace(Traced{Protocol: protocol, Run: i, Index: shape, Shape: o.Shapes[shape], Visit: v})
				}
			}
			r, err := b.Run(ctx, protocol, o.Warmup, o.Seed+uint64(i))
			if ctx.Err() != nil {
				if r != nil && protocol == Settled && r.Visits > 0 {
					runs = append(runs, *r) // an order counts for the shapes that it reached
				}
				if len(runs) > 0 {
					return NewReport(d.Info.Name, o.Shapes, runs), nil
				}
			}
			if err != nil {
				return nil, fmt.Errorf("%s run %d: %w", protocol, i+1, err)
			}
			runs = append(runs, *r)
			if o.Progress != nil {
				o.Progress(*r)
			}
		}
	}
	return NewReport(d.Info.Name, o.Shapes, runs), nil
}

// times is how often a protocol is run.
func (o Options) times(protocol string) int {
	if protocol == Settled {
		return max(o.Orders, 1)
	}
	return max(o.Runs, 1)
}

// settings are those of the sessions.
func (o Options) settings() measure.Settings {
	s := measure.Defaults()
	if o.Passes > 0 {
		s.Passes = o.Passes
		s.MaxPasses = max(s.MaxPasses, 2*s.Passes)
	}
	if o.MaxPasses > 0 {
		s.MaxPasses = o.MaxPasses
	}
	if o.PassTolerance > 0 {
		s.PassTolerance = o.PassTolerance
	}
	return s
}

// wants says whether a protocol is to be run.
func (o Options) wants(protocol string) bool {
	if len(o.Only) > 0 {
		return slices.Contains(o.Only, protocol)
	}
	return protocol != Settled && protocol != Estimated && (protocol != Soaked || o.Warmup > 0)
}

// Bench measures shapes on a device. The caller has bound its goroutine to it.
type Bench struct {
	Device   *ops.Device
	Shapes   []Shape
	Settings measure.Settings
	Tuning   measure.Tuning
	// Window is how many cases are open at once.
	Window int
	// Captures is how often a session captures the graphs of a shape; 0 means as
	// often as a worker does (Settings.Captures).
	Captures int
	// Clock is the time that sessions see; nil for the machine's.
	Clock measure.Clock
	// Trace receives every visit with the index of its shape; it may be nil.
	Trace func(shape int, v measure.Visit)

	level  float64 // the clock of the ready device, from earlier sessions
	orders int     // runs of the settled protocol so far
}

func (b *Bench) clock() measure.Clock {
	if b.Clock != nil {
		return b.Clock
	}
	return measure.NewSystemClock()
}

// graphs says how the graphs of a shape are made with these settings.
func (b *Bench) graphs(set measure.Settings) ops.Graphs {
	g := ops.Graphs{Mode: b.Settings.Graph, Captures: set.Captures(), Seconds: set.GraphSeconds()}
	if b.Captures > 0 {
		g.Captures = b.Captures
	}
	return g
}

// prepare makes the target of a shape.
func (b *Bench) prepare(s Shape, g ops.Graphs) (*ops.Target, *ops.Case, error) {
	cases, err := b.Device.GEMM(ops.GEMM{M: s.M, N: s.N, K: s.K, Type: "bfloat16"})
	if err != nil {
		return nil, nil, err
	}
	t, err := b.Device.NewTarget(cases[0], g)
	if err != nil {
		cases[0].Close()
		return nil, nil, err
	}
	return t, cases[0], nil
}

// Run runs a protocol once, in an order drawn from seed.
func (b *Bench) Run(ctx context.Context, protocol string, warmup float64, seed uint64) (*Run, error) {
	set := b.Settings
	set.OperatingPoint, set.WarmupSeconds = measure.PointSustained, 0
	switch protocol {
	case Reference:
		return b.reference(ctx, seed)
	case Settled:
		return b.settled(ctx, seed)
	case Recovered:
		set.OperatingPoint = measure.PointRecovered
	case Soaked:
		set.WarmupSeconds = warmup
	}
	b.Tuning.Probe = protocol != Estimated
	r, err := b.session(ctx, set, seed)
	if r != nil {
		r.Protocol = protocol
	}
	return r, err
}

// session measures the shapes side by side.
func (b *Bench) session(ctx context.Context, set measure.Settings, seed uint64) (*Run, error) {
	out := &Run{Seed: seed, Rows: make([]measure.Measured, len(b.Shapes))}
	order := rand.New(rand.NewPCG(seed, 1)).Perm(len(b.Shapes))
	jobs := make(chan *measure.Job, b.Window)
	slots := make(chan struct{}, b.Window)
	inner, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	clock := b.clock()
	begin := clock.Now()
	go func() {
		defer close(failed)
		defer close(jobs)
		unbind, err := b.Device.Bind()
		if err != nil {
			failed <- err
			return
		}
		defer unbind()
		for _, i := range order {
			select {
			case slots <- struct{}{}:
			case <-inner.Done():
				return
			}
			t, c, err := b.prepare(b.Shapes[i], b.graphs(set))
			if err != nil {
				failed <- fmt.Errorf("shape m=%d n=%d k=%d: %w", b.Shapes[i].M, b.Shapes[i].N, b.Shapes[i].K, err)
				return
			}
			j := &measure.Job{Target: t, Tag: i}
			j.Seconds, j.Watts = b.Device.Peaks.Estimate(c)
			j.Draw = func(seconds, clock float64) float64 { return b.Device.Peaks.Load(c, seconds, clock) }
			j.Rank = func(seconds, clock float64) float64 { return b.Device.Peaks.Rank(c, seconds, clock) }
			j.Done = func(r measure.Measured, err error) {
				if err != nil {
					out.Errors = append(out.Errors, fmt.Sprintf("%s: %v", c.Label, err))
				}
				out.Rows[i] = r
				t.Close()
				<-slots
			}
			jobs <- j
		}
	}()
	s := &measure.Session{
		Settings: set, Tuning: b.Tuning, Clock: clock,
		Rand: rand.New(rand.NewPCG(seed, 2)), Ready: b.Device.Ready, Level: b.level, Batch: b.Window,
	}
	if b.Trace != nil {
		s.Trace = func(v measure.Visit) { b.Trace(v.Job.Tag.(int), v) }
	}
	err := s.Run(ctx, jobs, driver.Sticky)
	b.level = s.Level
	cancel()
	if e := <-failed; e != nil {
		err = e
	}
	out.Seconds = (clock.Now() - begin).Seconds()
	out.Busy, out.Waited = s.Busy.Seconds(), s.Waited.Seconds()
	out.Visits, out.Looks, out.Discarded = s.Visits, s.Looks, s.Discarded
	return out, err
}

// reference runs the reference protocol once: case after case, without pause.
func (b *Bench) reference(ctx context.Context, seed uint64) (*Run, error) {
	out := &Run{Protocol: Reference, Seed: seed, Rows: make([]measure.Measured, len(b.Shapes))}
	set := b.Settings
	set.Protocol = measure.ProtocolReference
	clock := b.clock()
	begin := clock.Now()
	for _, i := range rand.New(rand.NewPCG(seed, 1)).Perm(len(b.Shapes)) {
		t, c, err := b.prepare(b.Shapes[i], ops.Graphs{Mode: set.Graph})
		if err != nil {
			return nil, err
		}
		r, err := measure.Once(ctx, t.Replays(), clock, set)
		t.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Label, err)
		}
		out.Rows[i] = r
		out.Visits++
		out.Busy += r.Latency / 1e3 * float64(r.Executions)
	}
	out.Seconds = (clock.Now() - begin).Seconds()
	return out, nil
}
