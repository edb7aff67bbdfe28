package workload

import (
	"math"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Arrival patterns.
const (
	Constant = "constant"
	Poisson  = "poisson"
	Gamma    = "gamma"
)

// Patterns returns the names of all patterns.
func Patterns() []string { return []string{Constant, Poisson, Gamma} }

// Arrivals describes an arrival process.
type Arrivals struct {
	Pattern string

	// Rate is in requests per second.
	Rate float64

	// Smoothness is the shape parameter of Gamma: 1 equals Poisson, larger values are smoother, smaller
	// values burstier. The mean gap is always 1/Rate.
	Smoothness float64

	// Ramp is the time in which the rate grows linearly from 0 to Rate.
	Ramp time.Duration

	// Seed is the random seed of the gaps. 0 is a valid seed.
	Seed uint64
}

// A Schedule generates the arrival times. It is not safe for concurrent use.
type Schedule struct {
	c   Arrivals
	gap func() float64 // draws a gap of a process with rate 1
	sum float64        // expected arrivals so far
}

// NewSchedule returns a schedule. The config must be valid. The first request is due at time 0.
func NewSchedule(c Arrivals) *Schedule {
	src := rand.NewPCG(c.Seed, 0x61727269766c73) // independent of the random stream of the prompts
	s := &Schedule{c: c}

	switch c.Pattern {
	case Constant:
		s.gap = func() float64 { return 1 }
	case Poisson:
		s.gap = distuv.Exponential{Rate: 1, Src: src}.Rand
	case Gamma:
		s.gap = distuv.Gamma{Alpha: c.Smoothness, Beta: c.Smoothness, Src: src}.Rand
	}
	return s
}

// Next returns the time of the next arrival, relative to the start.
func (s *Schedule) Next() time.Duration {
	at := s.at(s.sum)
	s.sum += s.gap()
	return at
}

// at returns the time at which the expected number of arrivals reaches n. It is the inverse of the integral
// of the rate.
func (s *Schedule) at(n float64) time.Duration {
	ramp := s.c.Ramp.Seconds()
	var t float64

	if inRamp := s.c.Rate * ramp / 2; n < inRamp {
		t = math.Sqrt(2 * n * ramp / s.c.Rate)
	} else {
		t = ramp + (n-inRamp)/s.c.Rate
	}

	return time.Duration(min(t, 1e9) * float64(time.Second)) // decades at most, without an overflow
}
