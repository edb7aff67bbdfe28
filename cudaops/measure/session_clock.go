package measure

import (
	"context"
	"math"
	"slices"
	"time"
)

// cooling returns the time until the remaining heat is low enough for a visit.
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

// see records a clock reading of the idle device in MHz and reports whether the device
// was ready. An unknown clock (0) counts as ready.
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
		// A first reading may be a glitch, so it does not raise the level alone.
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
	readings = 32    // of the ready clock, from which its noise is computed
	coarse   = 0.003 // noise above which a single reading is unreliable
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

// giveUp accepts a lower clock as that of the ready device.
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

// await returns when the device is ready or MaxWait is over.
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

// learn finds the level of an unknown device: it waits until the clock stops rising.
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
