package measure

import (
	"context"
	"math"
)

// A device lowers its clock within microseconds under work that draws more than
// it can deliver at once, long before the power cap acts. How far is a property
// of the case that repeats within some tenths of a percent, and says more about
// what it draws than its operations and bytes do: so every case that the cap
// holds back is looked at once on a device that has recovered.
const (
	probeBlock = 300e-6 // seconds
	// longProbe is an execution that heats the device too much for it.
	longProbe = 8e-3
	// probeReady is the share of the ready clock that the device needs.
	probeReady = 0.985
	// noDroop is the share of the clock from which on it tells nothing.
	noDroop = 0.95
	// powerOfClock: power grows with this power of the clock, where voltage follows.
	powerOfClock = 2.5
)

// probes says whether a case is to be looked at before it joins a batch.
func (s *Session) probes(o *pending) bool {
	return s.Tuning.Probe && s.engine() && !o.probed && s.guess(o) <= longProbe && s.held(o)
}

// probe makes that look.
func (s *Session) probe(ctx context.Context, o *pending) error {
	q := max(o.job.Target.Quantum(), 1)
	t := max(s.guess(o), 1e-9)
	b := Burst{Warm: q, Executions: int(min(max(math.Ceil(probeBlock/t/float64(q)), 1), maxLaunch)) * q, Blocks: 1}
	at := s.Clock.Now()
	v := Visit{Job: o.job, Number: o.made, At: at, Idle: at - s.ended, Heat: s.heat, Discarded: true}
	blocks, err := o.job.Target.Burst(ctx, b)
	s.ended = s.Clock.Now()
	if err != nil {
		return err
	}
	if err := checkBlocks(blocks, b); err != nil {
		return err
	}
	seen := condense(blocks, b)
	n := b.Warm + executions(blocks[0], b)
	o.seconds, o.clock = seen.median, seen.clock
	o.execs += n
	o.made++
	s.Visits++
	s.Discarded++
	s.spend(float64(n)*seen.median, o.job.Watts)
	s.cool(s.ended)
	o.timed = true
	s.noteDroop(o, seen)
	if s.Trace != nil {
		v.Blocks = blocks
		s.Trace(v)
	}
	return nil
}

// noteDroop keeps what a visit on a recovered device says about the droop.
func (s *Session) noteDroop(o *pending, seen visit) {
	o.probed = true
	if s.Level > 0 && seen.clock > 0 && seen.ready >= probeReady*s.Level {
		o.droop = min(seen.clock/s.Level, 1)
	}
}

// orderByDroop corrects the load of the cases of a batch by their droop: power is
// held at once to something that is the same for all, so that a case would draw as
// much more at full clock as it lacks of it. What that something is follows from
// the estimates. The load is the geometric mean of both, whose errors have nothing
// to do with each other.
func (s *Session) orderByDroop(batch []*pending) {
	var at []float64
	for _, o := range batch {
		if o.droop > 0 && o.droop < noDroop {
			at = append(at, o.load*math.Pow(o.droop, powerOfClock))
		}
	}
	if len(at) == 0 {
		return
	}
	fast := Median(at)
	for _, o := range batch {
		switch {
		case o.droop == 0:
		case o.droop < noDroop:
			o.load = math.Sqrt(o.load * fast * math.Pow(o.droop, -powerOfClock))
		default:
			o.load = min(o.load, fast*math.Pow(noDroop, -powerOfClock))
		}
	}
}
