package ops

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

// prepared is a case that can be visited.
type prepared struct {
	c       worker.Case
	target  *Target
	watts   float64
	seconds float64
	begin   time.Duration // of the first visit
	extra   map[string]any
}

func (p *prepared) close() { p.target.Close() }

// prepareCase creates a case's target. The device's context must be current on the calling thread.
func (h *Host) prepareCase(c worker.Case) (*prepared, error) {
	x, err := h.dev.prepare(c, h.set.bindings)
	if err != nil {
		return nil, err
	}

	p := &prepared{c: c, extra: map[string]any{}}
	if p.target, err = h.dev.NewTarget(x, h.graphs(x)); err != nil {
		if x.Close != nil {
			x.Close()
		}

		return nil, err
	}

	p.seconds, p.watts = h.dev.Peaks.Estimate(x)
	if x.Bytes+x.Flops <= 0 {
		p.seconds = 0 // a user's kernel without bytes and flops
	}

	return p, nil
}

// settledGraph is the minimum time of a graph of a case that runs continuously, in seconds. The graph
// of a server contains many layers.
const settledGraph = 500e-6

// graphs returns the configuration of a case's graphs. They are captured once if the case runs
// continuously instead of in visits.
func (h *Host) graphs(c *Case) Graphs {
	set := h.set.measure
	g := Graphs{Mode: set.Graph, Captures: set.Captures(), Seconds: set.GraphSeconds()}
	if c.Settle > 0 && g.Seconds > 0 {
		g.Captures, g.Seconds = 1, max(g.Seconds, settledGraph)
	}

	return g
}

// serveSession measures several cases in turn. A second thread prepares cases while the first one
// measures.
func (h *Host) serveSession(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	inner, cancel := context.WithCancel(ctx)
	jobs := make(chan *measure.Job, h.options.Window)
	var open sync.Map // cases that are closed if Serve ends early
	var lostContext error
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		defer close(jobs)
		lostContext = h.prepareAll(inner, in, out, jobs, &open)
	}()

	stop := func() {
		cancel()
		wg.Wait()
	}

	defer func() {
		// Also after a panic, because the cases are then served again with new targets.
		stop()
		open.Range(func(p, _ any) bool {
			p.(*prepared).close()
			return true
		})
	}()

	s := &measure.Session{
		Settings: h.set.measure, Tuning: h.tuning(), Clock: h.clock,
		Rand:  rand.New(rand.NewPCG(uint64(h.set.seed), uint64(h.set.measure.Seed))),
		Ready: h.dev.Ready, Level: h.level, Batch: h.options.Window,
	}

	err := s.Run(ctx, jobs, lost)
	h.level = s.Level
	stop()
	if err == nil {
		err = lostContext
	}

	return err
}

// tuning returns the tuning for the device's power limit and the plan's settings.
func (h *Host) tuning() measure.Tuning {
	t := measure.DefaultTuning(h.dev.Peaks.Watts * (1 - IdleShare))
	if gap := time.Duration(h.set.measure.IdleGapSeconds * float64(time.Second)); gap > t.Gap {
		t.Gap = gap
	}

	return t
}

// prepareAll converts cases to jobs until in is closed. It only returns an error if the context is
// lost. The session then gets the same error at the case that caused it, so that this case fails
// and not one that waits.
func (h *Host) prepareAll(ctx context.Context, in <-chan worker.Case, out worker.Emitter, jobs chan<- *measure.Job,
	open *sync.Map) error {
	unbind, err := h.dev.Bind()
	if err != nil {
		return err
	}

	defer unbind()
	for {
		c, ok := next(ctx, in)
		if !ok {
			return nil
		}

		p, err := h.guarded(c)
		if err != nil {
			f := failureOf(err, h.ownKernel(c))
			if f.Fatal {
				if h.dev.lost() {
					return err
				}

				// The library returns the same code for a product that fails.
				f.Fatal = false
			}

			out.Start(c.Seq)
			out.Error(c.Seq, f)
			continue
		}

		open.Store(p, true)
		select {
		case jobs <- h.job(p, out, open):
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *Host) guarded(c worker.Case) (p *prepared, err error) {
	defer worker.Guard(&err)
	return h.prepareCase(c)
}

// job returns the session's job for a case.
func (h *Host) job(p *prepared, out worker.Emitter, open *sync.Map) *measure.Job {
	j := &measure.Job{Target: p.target, Seconds: p.seconds, Watts: p.watts}
	if p.seconds > 0 {
		j.Draw = func(seconds, clock float64) float64 { return h.dev.Peaks.Load(p.target.c, seconds, clock) }
		j.Rank = func(seconds, clock float64) float64 { return h.dev.Peaks.Rank(p.target.c, seconds, clock) }
	}

	j.Visit = func() {
		if p.begin == 0 {
			p.begin = h.clock.Now()
		}

		out.Start(p.c.Seq)
	}

	if h.options.Verify || h.settles(p) || h.set.measure.Power && h.nvml != nil {
		j.Finish = func(ctx context.Context, r *measure.Measured) (float64, error) { return h.finish(ctx, p, r) }
	}

	j.Done = func(r measure.Measured, err error) {
		open.Delete(p)
		if err != nil {
			out.Error(p.c.Seq, failureOf(err, h.ownKernel(p.c)))
		} else {
			out.Result(p.c.Seq, []worker.Row{h.row(p, r, p.begin)}, h.seconds(r.Spent))
		}

		p.close()
	}

	return j
}

// settles reports whether the case must run alone.
func (h *Host) settles(p *prepared) bool {
	return p.target.c.Settle > 0 && h.set.measure.OperatingPoint == measure.PointSustained &&
		h.set.measure.Protocol != measure.ProtocolReference
}

// finish performs the numeric check and measures the power, while no other case runs. It returns the
// energy above idle in joules.
func (h *Host) finish(ctx context.Context, p *prepared, r *measure.Measured) (joules float64, err error) {
	c := p.target.c
	if h.options.Verify && c.Verify != nil {
		d, err := c.Verify(verifySamples, uint64(h.set.measure.Seed))
		if err != nil {
			return 0, err
		}

		if !d.OK() {
			return 0, worker.Failed(worker.ClassFrameworkBug, "%s: %v: relative error %.3g over %d samples, more than %.3g",
				c.Label, errWrong, d.Relative, d.Samples, d.Tolerance)
		}

		p.extra["relative_error"] = d.Relative
	}

	if h.settles(p) {
		alone, err := measure.Alone(ctx, p.target, p.target.c.Settle, nil)
		if err != nil {
			return 0, err
		}

		alone.Executions += r.Executions
		joules = p.target.c.Settle * p.watts
		alone.Throttled = r.Throttled
		*r = alone
	}

	if h.set.measure.Power && h.nvml != nil {
		pw, err := h.power(ctx, p.target, r.Latency/1e3)
		if err != nil {
			return joules, err
		}

		maps.Copy(p.extra, pw.Columns())
		r.Executions += pw.Executed
		joules += pw.Spent()
	}

	return joules, nil
}

const verifySamples = 16

// power measures the power of a target with the given time of an execution in seconds. It unlocks the
// device also after a panic, because the other cases need it.
func (h *Host) power(ctx context.Context, t *Target, seconds float64) (pw Power, err error) {
	l := t.startLoad(seconds)
	defer func() {
		if e := l.Stop(); err == nil {
			err = e
		}
	}()

	return MeasurePower(ctx, l, h.nvml, h.clock, h.set.measure.PowerMinSeconds)
}

// row returns the row of a measured case.
func (h *Host) row(p *prepared, r measure.Measured, begin time.Duration) worker.Row {
	row := rowOf(r, p.target.c, h.dev.Peaks)
	maps.Copy(row, p.extra)
	if h.monitor != nil {
		seen := h.monitor.columns(begin)
		if r.Throttled != nil && *r.Throttled {
			delete(seen, "throttled") // already known from the clock
		}

		maps.Copy(row, seen)
	}

	return row
}
