package measure

import (
	"context"
	"math"
)

// A device lowers its clock within microseconds under work that draws more than
// it can deliver at once, long before the power cap acts. How far is a property of
// the case that repeats within a percent and shows its power better than its operations
// and bytes do, so every capped case is visited once on a recovered device.
const (
	probeBlock = 300e-6 // seconds
	// longProbe is an execution that heats the device too much for it.
	longProbe = 8e-3
	// longLook is an execution in which the device reaches its clock at the power cap. Longer ones are not
	// probed, because a probe would take as long as a row. Estimates of long cases can be twice too long,
	// because other workers use the device as well.
	longLook = 100e-3
	// probeReady is the share of the ready clock that the device needs.
	probeReady = 0.985
	// droopFollows is how the clock at the cap follows that at once: of two cases
	// of one load whose clocks at once differ by 1 %, the clocks at the cap do by
	// so much. Fitted on an H200 to what products take alone.
	droopFollows = 0.8
)

// probes reports whether a case is probed before it joins a batch.
func (s *Session) probes(o *pending) bool {
	return s.Tuning.Probe && s.engine() && !o.probed && !o.job.Learn && s.guess(o) <= longProbe && s.held(o)
}

// probe visits the case once on a recovered device.
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

// noteDroop records the droop of a visit on a recovered device. A Learn case is visited again if the device was not
// ready or the droop is not plausible, and once more if its executions are brief and the power cap seems to limit it:
// something may have disturbed it.
func (s *Session) noteDroop(o *pending, seen visit) {
	o.probed = true
	before := o.droop
	switch {
	case s.Level <= 0 || seen.clock <= 0:
	case o.job.Learn && o.looks < maxLooks && (seen.ready < probeReady*s.Level || seen.clock < leastShare*seen.ready):
		o.looks++
		o.probed, s.unsure = false, true
		return
	case o.job.Learn && seen.ready > 0:
		// The clock of the ready device differs from visit to visit by 0.5 %, and the clock under load with it.
		o.droop = max(before, min(seen.clock/seen.ready, 1))
	case seen.ready >= probeReady*s.Level:
		o.droop = max(before, min(seen.clock/s.Level, 1))
	}
	o.probed = !o.job.Learn || before > 0 || o.droop <= 0 || s.guess(o) >= briefSeconds || !s.held(o)
}

// heldBelow is the droop below which a Learn case is visited with the capped ones.
func heldBelow(seconds float64) float64 {
	if seconds < briefSeconds {
		return droopShare
	}
	return slowShare
}

// learnt is the load of a case of which nothing but its droop is known, in watts
// above idle: power at full clock falls with the droop to the power of learnPower.
func (s *Session) learnt(o *pending) float64 {
	if o.droop <= 0 {
		return s.Tuning.CapWatts
	}
	return capShare * s.Tuning.CapWatts * math.Pow(learnShare/o.droop, learnPower)
}

const (
	// learnShare is the droop below which the power cap limits a case of which nothing else is known: on H200s, products
	// keep 0.65 of the ready clock at a droop of 0.79, and 0.75 at 0.885. From there the clock rises to the one of the
	// droop at slowShare, from which on the cap limits hardly any: a rise from 0.885 to 0.905 was less accurate on two
	// H200s, because the droop has a noise of 0.35 %. The least droop of 2,900 products was 0.69: one below leastShare
	// shows that something else ran.
	leastShare = 0.6
	learnShare = 0.88
	slowShare  = 0.91
	// Between kernels the cycles of the device are not counted, so the clock of brief ones reads too low: products of
	// 2 us have a droop of 0.88 and keep that clock, also in executions of several. The power cap cannot limit
	// executions below tinySeconds.
	tinySeconds  = 4e-6
	briefSeconds = 50e-6
	learnPower   = 2.5
	maxLooks     = 3
)
