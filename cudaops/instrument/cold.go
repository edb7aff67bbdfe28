package instrument

import (
	"context"
	"math"

	"aicplan/cudaops/measure"
)

// longest is the latency, in ms, up to which a case is measured cold: a longer one
// has read more than the cache holds, or does not wait for memory.
const longest = 0.2

// coldMargin is by how much an estimate of a latency may be too long.
const coldMargin = 1.5

// cold reports whether the offer is to be measured with a cache full of other data.
// One that the power cap holds stays hot: the read would change its clock.
func (o *offer) cold() bool {
	return o.Cold && o.hot.UsedGraph && o.hot.Latency <= longest && o.hot.ClockSlope == nil
}

// chill is an offer in two further forms: its executions in turn with a read of other
// data, and that read alone. What both take, less what the read takes, is what the
// case takes with operands from memory.
type chill struct {
	o     *offer
	turns part
	read  *part
}

// part is one of the forms with its measurement.
type part struct {
	target *target
	got    measure.Measured
	energy map[string]any
	err    error
}

// evictCalls is how often a graph of the forms holds each of them.
const evictCalls = 8

// reads are the reads of other data. Offers of a worker share them.
type reads map[readOf]*part

type readOf struct {
	m      *member
	handle int64
}

// chill has the worker prepare the forms; nil if it cannot.
func (o *offer) chill(ctx context.Context, shared reads) *chill {
	r, err := o.m.ask(ctx, command{What: "vary", Handle: o.Handle})
	if err == nil && len(r.Handles) != 2 {
		return nil
	}
	if err != nil {
		o.end(nil, err)
		return nil
	}
	c := &chill{o: o}
	c.turns.target = &target{o: o, handle: r.Handles[0], calls: evictCalls}
	of := readOf{o.m, r.Handles[1]}
	if shared[of] == nil {
		shared[of] = &part{target: &target{o: o, handle: of.handle, calls: evictCalls}}
	}
	c.read = shared[of]
	return c
}

// form returns the measurement of a form.
func (s *session) form(p *part) *measure.Job {
	j := &measure.Job{Target: p.target, Seconds: p.target.o.Seconds, Watts: s.usual, Learn: true}
	j.Done = func(r measure.Measured, err error) { p.got, p.err = r, err }
	if s.set.Power && s.device != nil {
		j.Finish = func(ctx context.Context, r *measure.Measured) (joules float64, err error) {
			p.energy, joules, err = s.power(ctx, p.target, r)
			return joules, err
		}
	}
	return j
}

// combine makes the offer's measurement the cold one.
func (c *chill) combine() {
	for _, p := range []*part{&c.turns, c.read} {
		if p.err != nil {
			c.o.end(nil, p.err)
			return
		}
	}
	turns, read, o := c.turns.got, c.read.got, c.o
	latency := turns.Latency - read.Latency
	if !(latency > 0) {
		return // the row stays hot
	}
	r := turns
	r.Latency = latency
	r.RelStdev = nil
	if turns.RelStdev != nil && read.RelStdev != nil {
		of := math.Hypot(*turns.RelStdev*turns.Latency, *read.RelStdev*read.Latency) / latency
		r.RelStdev = &of
	}
	r.PassSpread = turns.PassSpread * turns.Latency / latency
	r.P10, r.P90 = max(turns.P10-read.Latency, 0), turns.P90-read.Latency
	r.Executions += o.hot.Executions
	if turns.ClockMHz > 0 && read.ClockMHz > 0 {
		r.ClockMHz = (turns.ClockMHz + read.ClockMHz) / 2
	}
	o.energy = map[string]any{"cache": "cold", "latency_hot": o.hot.Latency}
	energy, took := differ(c.turns.energy, c.read.energy, "energy"), differ(c.turns.energy, c.read.energy, "power_latency")
	if energy > 0 && took > 0 {
		for _, name := range []string{"power_limit", "power_method", "power_seconds"} {
			o.energy[name] = c.turns.energy[name]
		}
		o.energy["power"], o.energy["energy"], o.energy["power_latency"] = energy*1e3/took, energy, took
	}
	o.hot = r
}

// differ is the difference of a column of two rows; 0 if one lacks it.
func differ(a, b map[string]any, name string) float64 {
	x, _ := a[name].(float64)
	y, ok := b[name].(float64)
	if !ok {
		return 0
	}
	return x - y
}
