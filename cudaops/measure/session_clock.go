package measure

import (
	"context"
	"math"
	"slices"
	"time"
)

// cooling is how long it takes until the heat that a visit may find is left.
func (s *Session) cooling(now time.Duration) time.Duration {
	if s.Tuning.RecoverWatts <= 0 || s.sustained() {
		return 0
	}
	left := s.heat - (now-s.heatAt).Seconds()*s.Tuning.RecoverWatts
	return seconds(max(0, left-s.Tuning.HeatJoules) / s.Tuning.RecoverWatts)
}

// cool lets the heat decay until now.
func (s *Session) cool(now time.Duration) {
	s.heat = max(0, s.heat-(now-s.heatAt).Seconds()*s.Tuning.RecoverWatts)
	s.heatAt = now
}

// see takes note of a clock that the device had with nothing running, and says
// whether the device was ready. An unknown clock counts as ready.
func (s *Session) see(mhz float64) bool {
	if mhz <= 0 {
		return true
	}
	s.read = append(s.read, mhz)
	if len(s.read) > readings {
		s.read = s.read[1:]
	}
	steady, noise := s.settled()
	if len(s.read) <= 3 {
		// A first reading may be a glitch: nothing is kept of it alone.
		s.top, s.Level = s.carried, s.carried
	}
	s.top = max(s.top, steady)
	s.Level = max(s.Level, steady)
	if noise > coarse {
		// The highest of many noisy readings is no clock that the device ever had.
		s.Level = Percentile(s.read, 0.75)
		s.top = s.Level
	}
	if s.Level >= s.Tuning.ReadyShare*s.top {
		s.gaveUp = false
	}
	return mhz >= (s.Tuning.ReadyShare-2*noise)*s.Level
}

const (
	readings = 32    // of the ready clock, that tell its noise
	coarse   = 0.003 // noise from which on a single reading tells little
)

// settled returns the clock that the last readings agree on, so that a single
// glitch does not count, and the noise of a reading: the median share by which
// one differs from the next. A timer of 1 us steps has 3 %, one of 32 ns 0.1 %.
func (s *Session) settled() (mhz, noise float64) {
	last := s.read[max(0, len(s.read)-3):]
	mhz = Percentile(last, 0.5)
	if len(last) < 3 {
		mhz = slices.Min(last)
	}
	if len(s.read) < readings/4 {
		return mhz, 0
	}
	var steps []float64
	for i := 1; i < len(s.read); i++ {
		steps = append(steps, math.Abs(s.read[i]-s.read[i-1]))
	}
	return mhz, Median(steps) / Median(s.read)
}

// giveUp takes a clock for the device's that is lower than it once was.
func (s *Session) giveUp(mhz float64) {
	s.top = max(s.top, s.Level)
	s.Level, s.gaveUp = mhz, true
}

// Pauses between readings of the clock while it recovers.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 20 * time.Millisecond
	// A controller that raises the clock does so in steps some ten milliseconds
	// apart.
	learnPause  = 50 * time.Millisecond
	stillRising = 1.002
)

// await returns when the device is ready, or when waiting was given up.
func (s *Session) await(ctx context.Context) error {
	if s.Ready == nil {
		return nil
	}
	began := s.Clock.Now()
	defer func() { s.Waited += s.Clock.Now() - began }()
	if s.Level == 0 {
		return s.learn(ctx, began)
	}
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		mhz, err := s.Ready(ctx)
		if err != nil {
			return err
		}
		if s.see(mhz) {
			return nil
		}
		if s.Clock.Now()-began >= s.Tuning.MaxWait {
			s.giveUp(mhz)
			return nil
		}
		if err := s.Clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// learn finds the level of a device of which nothing is known: it waits until
// the clock rises no more.
func (s *Session) learn(ctx context.Context, began time.Duration) error {
	for {
		before := s.Level
		mhz, err := s.Ready(ctx)
		if err != nil {
			return err
		}
		s.see(mhz)
		if s.Level <= before*stillRising || s.Clock.Now()-began >= s.Tuning.MaxWait {
			return nil
		}
		if err := s.Clock.Sleep(ctx, learnPause); err != nil {
			return err
		}
	}
}
