package instrument

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/nvml"
	"aicplan/cudaops/ops"
	"aicplan/cudaops/worker"
)

// offer is a prepared case.
type offer struct {
	prepared
	m       *member
	ended   bool
	columns map[string]any
	failure *failure
	// hot is the measurement, energy what was added to its columns.
	hot    measure.Measured
	energy map[string]any
}

// end notes the result of an offer; the first one counts.
func (o *offer) end(columns map[string]any, err error) {
	if o.ended {
		return
	}
	o.ended, o.columns = true, columns
	if err != nil {
		o.failure = &failure{Message: err.Error()}
		f := worker.FailureOf(err)
		o.failure.Class, o.failure.Own = f.Class, errors.Is(err, errOwn)
		if errors.Is(err, measure.ErrTimer) {
			o.failure.Class = worker.ClassTransient
		}
	}
}

// errOwn is wrapped by errors whose exception the worker holds.
var errOwn = errors.New("the worker could not run it")

// errGone is returned for a burst of a worker that has left.
var errGone = errors.New("the worker is gone")

// measure measures a batch. All workers wait.
func (in *Instrument) measure(batch []*offer) {
	ctx := context.Background()
	for len(batch) > 0 {
		var same, others []*offer
		for _, o := range batch {
			if bytes.Equal(o.Settings, batch[0].Settings) && o.GPU == batch[0].GPU {
				same = append(same, o)
			} else {
				others = append(others, o)
			}
		}
		batch = others
		s := measure.Defaults()
		err := json.Unmarshal(same[0].Settings, &s)
		if err == nil {
			err = s.Validate()
		}
		switch {
		case err != nil:
			for _, o := range same {
				o.end(nil, worker.Failed(worker.ClassCollectorBug, "%v", err))
			}
		case !same[0].GPU || s.Protocol == measure.ProtocolReference:
			for _, o := range same {
				r, err := measure.Once(ctx, &target{o: o, handle: o.Handle}, in.o.Clock, s)
				o.finish(r, err)
			}
		default:
			in.session(ctx, same, s)
		}
	}
}

// finish ends an offer with a measurement.
func (o *offer) finish(r measure.Measured, err error) {
	if err != nil {
		o.end(nil, err)
		return
	}
	columns := r.Columns()
	maps.Copy(columns, o.energy)
	o.end(columns, nil)
}

// hotPass is the duration of a pass over capped cases. Heating and this pass end before the clock of an H200 falls
// below that of the power cap.
const hotPass = 450 * time.Millisecond

// fullBatch is the number of capped cases from which on no more are prepared before they are measured:
// more cases share a window with others of like power.
const fullBatch = 160

// leastRound is how few further cases end the preparing of more: each round costs the
// time in which the device recovers.
const leastRound = 4

// usualShare is the share of the power limit that a case of which nothing is known draws above idle.
const usualShare = 0.4

// lockedShare is the share of the highest clock below which a device with nothing
// running has locked clocks.
const lockedShare = 0.93

// session is a measurement of offers with the same settings.
type session struct {
	*Instrument
	set    measure.Settings
	device nvml.Device // nil without the management library
	usual  float64     // watts of a case of which nothing is known, above idle
}

// session measures offers of the same settings side by side.
func (in *Instrument) session(ctx context.Context, batch []*offer, set measure.Settings) {
	b := &session{Instrument: in, set: set, device: in.managed(batch[0].m.ready.UUID)}
	watts, highest := 0.0, 0
	if b.device != nil {
		if p, err := b.device.Power(); err == nil {
			watts = p.Limit * (1 - ops.IdleShare)
		}
		if c, err := b.device.Clocks(); err == nil {
			highest = c.MaxSM
		}
	}
	s := &measure.Session{
		Settings: set, Tuning: measure.DefaultTuning(watts), Clock: in.o.Clock,
		Rand:  rand.New(rand.NewPCG(uint64(set.Seed), uint64(len(batch)))),
		Ready: func(ctx context.Context) (float64, error) { return in.ready(ctx, batch) },
		Level: in.level, Trace: in.o.Trace,
	}
	s.Capped = in.capped[opOf(batch)]
	s.Tuning.HotPass = hotPass
	s.Tuning.Locked = in.level > 0 && in.level < lockedShare*float64(highest)
	s.Tuning.Gap = max(s.Tuning.Gap, time.Duration(set.IdleGapSeconds*float64(time.Second)))
	b.usual = usualShare * s.Tuning.CapWatts
	run := func(jobs []*measure.Job) {
		all := make(chan *measure.Job, len(jobs))
		for _, j := range jobs {
			all <- j
		}
		close(all)
		_ = s.Run(ctx, all, nil) // every job received its own error
	}

	known := map[*offer]bool{}
	var jobs []*measure.Job
	for _, o := range batch {
		known[o] = true
		jobs = append(jobs, b.job(o))
	}
	last := len(batch)
	s.More = func(context.Context) (jobs []*measure.Job) {
		held := 0
		for _, o := range batch {
			if !o.ended {
				held++
			}
		}
		if held >= fullBatch || last < leastRound {
			return nil
		}
		for _, o := range in.more(known) {
			if known[o] = true; bytes.Equal(o.Settings, batch[0].Settings) && o.GPU {
				batch, jobs = append(batch, o), append(jobs, b.job(o))
			}
		}
		last = len(jobs)
		return jobs
	}
	run(jobs)
	if op := opOf(batch); op != "" {
		in.capped[op] = s.Capped
	}
	s.Capped = nil // cases with a cold cache follow the power cap in another way

	var cold []*measure.Job
	var chilled []*chill
	shared := reads{}
	for _, o := range batch {
		if o.ended || !o.cold() {
			continue
		}
		if c := o.chill(ctx, shared); c != nil {
			chilled = append(chilled, c)
			cold = append(cold, b.form(&c.turns))
		}
	}
	for _, p := range shared {
		cold = append(cold, b.form(p))
	}
	if len(cold) > 0 {
		run(cold)
		for _, c := range chilled {
			c.combine()
		}
	}
	in.level = s.Level
	for _, o := range batch {
		if !o.ended {
			b.close(o)
		}
	}
}

// opOf returns the op of all offers, or "" if there are several.
func opOf(batch []*offer) string {
	for _, o := range batch {
		if o.Op != batch[0].Op {
			return ""
		}
	}
	return batch[0].Op
}

// job returns the measurement of an offer with operands from the cache.
func (s *session) job(o *offer) *measure.Job {
	t := &target{o: o, handle: o.Handle}
	j := &measure.Job{Target: t, Seconds: o.Seconds, Watts: s.usual, Learn: true}
	j.Done = func(r measure.Measured, err error) {
		o.hot = r
		switch {
		case err != nil:
			o.end(nil, err)
		case !o.cold():
			s.close(o)
		}
	}
	if s.settles(o) || s.set.Power && s.device != nil {
		j.Finish = func(ctx context.Context, r *measure.Measured) (float64, error) { return s.after(ctx, t, r) }
	}
	return j
}

// settles reports whether the offer runs alone after its measurement.
func (s *session) settles(o *offer) bool {
	return o.Settle > 0 && s.set.OperatingPoint == measure.PointSustained
}

// close ends an offer that has been measured.
func (s *session) close(o *offer) {
	if s.device != nil && o.hot.Throttled == nil {
		if why, err := s.device.Reasons(); err == nil {
			slow := why&nvml.Harmful != 0
			o.hot.Throttled = &slow
		}
	}
	if o.Cold && o.energy["cache"] == nil {
		o.energy = map[string]any{"cache": "hot"} // cold cases have no power unless they are measured cold
	}
	o.finish(o.hot, nil)
}

// managed returns the management library's view of the device; nil without one.
func (in *Instrument) managed(uuid string) nvml.Device {
	if in.uuid != uuid {
		in.uuid, in.device = uuid, nil
		if d, err := in.o.Device(uuid); err == nil {
			in.device = d
		}
	}
	return in.device
}

// ready reads the clock of the device with nothing running.
func (in *Instrument) ready(ctx context.Context, batch []*offer) (float64, error) {
	for _, o := range batch {
		r, err := o.m.ask(ctx, command{What: "clock"})
		if err == nil {
			return r.MHz, nil
		}
		if !errors.Is(err, errGone) {
			return 0, err
		}
	}
	return 0, errGone
}

// after does what follows a measurement with the device to itself.
func (s *session) after(ctx context.Context, t *target, r *measure.Measured) (joules float64, err error) {
	if s.settles(t.o) {
		alone, err := measure.Alone(ctx, t, t.o.Settle, nil)
		if err != nil {
			return 0, err
		}
		alone.Executions += r.Executions
		alone.Throttled = r.Throttled
		joules = t.o.Settle * usualShare * measure.DefaultTuning(0).CapWatts
		*r = alone
	}
	if s.set.Power && s.device != nil && !t.o.Cold {
		columns, spent, err := s.power(ctx, t, r)
		if err != nil {
			return joules, err
		}
		t.o.energy = columns
		joules += spent
	}
	return joules, nil
}

// target is a prepared case as sessions see it.
type target struct {
	o      *offer
	handle int64
	// calls are the executions of a launch if they differ from the offer's.
	calls int
}

var (
	_ measure.Burster = (*target)(nil)
	_ measure.Eager   = (*target)(nil)
	_ measure.Counted = (*target)(nil)
)

// Quantum implements measure.Burster.
func (t *target) Quantum() int {
	if t.calls > 0 {
		return t.calls
	}
	return t.o.Quantum
}

// Counts implements measure.Counted.
func (t *target) Counts() (warmups, runs int) { return max(t.o.Warmups, 1), max(t.o.Runs, 1) }

// Eager implements measure.Eager.
func (t *target) Eager(ctx context.Context, n int) error {
	_, err := t.o.m.ask(ctx, command{What: "call", Handle: t.handle, Executions: n})
	return err
}

// Block implements measure.Target.
func (t *target) Block(ctx context.Context, n int) (measure.Block, error) {
	blocks, err := t.blocks(ctx, command{Executions: n * t.launch(), Blocks: 1, Plain: true})
	if err != nil {
		return measure.Block{}, err
	}
	return blocks[0], nil
}

// launch is how many executions one execution of the reference protocol is: a replay.
func (t *target) launch() int {
	if t.o.GPU {
		return t.Quantum()
	}
	return 1
}

// Burst implements measure.Burster.
func (t *target) Burst(ctx context.Context, b measure.Burst) ([]measure.Block, error) {
	return t.blocks(ctx, command{
		Soak: b.Soak, Warm: b.Warm, Executions: b.Executions, Blocks: b.Blocks, Busy: b.Busy, Stop: b.Stop,
	})
}

func (t *target) blocks(ctx context.Context, c command) ([]measure.Block, error) {
	c.What, c.Handle = "burst", t.handle
	r, err := t.o.m.ask(ctx, c)
	if err != nil {
		return nil, err
	}
	if len(r.Blocks) != c.Blocks {
		return nil, fmt.Errorf("%d blocks came back of %d", len(r.Blocks), c.Blocks)
	}
	out := make([]measure.Block, len(r.Blocks))
	for i, b := range r.Blocks {
		out[i] = measure.Block{Seconds: b[0], Executions: int(b[1]), ClockMHz: b[2], ReadyMHz: r.MHz, UsedGraph: t.o.Graph}
		if t.o.GPU && !t.o.Graph {
			out[i].LaunchBound = &r.Bound
		}
	}
	return out, nil
}

// ask sends a command and waits for its reply.
func (m *member) ask(ctx context.Context, c command) (reply, error) {
	select {
	case <-m.gone:
		return reply{}, errGone
	default:
	}
	if err := m.request(c); err != nil {
		return reply{}, errGone
	}
	select {
	case r := <-m.replies:
		if r.Failed {
			return r, fmt.Errorf("%w: %s", errOwn, r.Text)
		}
		return r, nil
	case <-m.gone:
		return reply{}, errGone
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// power runs the target under load and returns the columns of its power, and the
// joules that it spent above idle.
func (s *session) power(ctx context.Context, t *target, r *measure.Measured) (map[string]any, float64, error) {
	l := &load{t: t, batch: max(1, int(loadBatch/max(r.Latency/1e3, 1e-9)/float64(t.Quantum())))}
	p, err := ops.MeasurePower(ctx, l, s.device, s.o.Clock, s.set.PowerMinSeconds)
	if _, e := t.o.m.ask(ctx, command{What: "drain", Handle: t.handle}); err == nil {
		err = e
	}
	if err != nil {
		return nil, 0, err
	}
	r.Executions += p.Executed
	return p.Columns(), p.Spent(), nil
}

// loadBatch is how many seconds of work a load queues at a time, and loadAhead how
// many such batches: a reading of the energy counter takes some milliseconds.
const (
	loadBatch = 10e-3
	loadAhead = 3
)

// load keeps a device busy with one target.
type load struct {
	t            *target
	batch        int // launches
	queued, done int // executions
}

var _ ops.Executor = (*load)(nil)

// Fill implements ops.Executor.
func (l *load) Fill(ctx context.Context) (int, error) {
	before := l.queued
	if _, err := l.Done(); err != nil {
		return 0, err
	}
	each := l.batch * l.t.Quantum()
	for l.queued-l.done < loadAhead*each {
		r, err := l.t.o.m.ask(ctx, command{What: "queue", Handle: l.t.handle, Executions: each})
		if err != nil {
			return 0, err
		}
		l.queued, l.done = l.queued+each, r.Done
	}
	return l.queued - before, nil
}

// Done implements ops.Executor.
func (l *load) Done() (int, error) {
	r, err := l.t.o.m.ask(context.Background(), command{What: "queue", Handle: l.t.handle})
	if err == nil {
		l.done = r.Done
	}
	return l.done, err
}
