package measuretest

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"aicplan/cudaops/measure"
)

// GPU is a fake device with a power controller: when the mean power over a
// period lies above the cap it lowers the clock by a step, else it raises it.
// Every target on it shares that state, so a row depends on what ran before
// unless the protocol prevents it.
type GPU struct {
	Clock *Clock
	Rand  *rand.Rand

	MaxMHz, MinMHz   float64
	StepDown, StepUp float64 // MHz per period
	Period           time.Duration
	CapWatts         float64 // above idle
	// TimerStep is the step of the timer that the ready clock is read with, over
	// Gate; 0 for an exact one. Glitch is added to the reading of that number.
	TimerStep, Gate time.Duration
	Glitch          map[int]float64
	reads           int
	// FastWatts is the power above idle, of the clock to the power of 2.5, that the
	// device can deliver at once: work that would draw more lowers the clock while
	// it runs. 0 for no such limit.
	FastWatts float64
	// Voltage is 0 if the power is proportional to the clock, and 1 if it is to its square, as if the voltage fell, too:
	// as on an H200.
	Voltage float64
	// MeanPeriods is of how many periods the mean power is held at the cap; 0 for one.
	// The clock then follows it by up to a step.
	MeanPeriods int
	// Cycles are those of all work so far, in millions.
	Cycles float64
	// Noise is the relative standard deviation between blocks.
	Noise float64

	means  []float64 // W, of the last periods
	mhz    float64
	joules float64 // in the current period
	begin  time.Duration
}

// NewGPU returns a device like a 700 W accelerator.
func NewGPU(clock *Clock, rng *rand.Rand) *GPU {
	return &GPU{
		Clock: clock, Rand: rng, MaxMHz: 1980, MinMHz: 1200, StepDown: 90, StepUp: 60,
		Period: 20 * time.Millisecond, CapWatts: 500, mhz: 1980,
	}
}

// MHz is the clock that the controller grants now.
func (g *GPU) MHz() float64 {
	g.settle()
	return g.mhz
}

// Heat lowers the clock as work of another process would.
func (g *GPU) Heat(mhz float64) { g.mhz = math.Max(g.MinMHz, g.mhz-mhz) }

// Ready implements what measure.Session.Ready asks for.
func (g *GPU) Ready(ctx context.Context) (float64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	g.Clock.Advance(25 * time.Microsecond)
	return g.reading(), nil
}

// reading is the clock as cycles over a time that is read in steps.
func (g *GPU) reading() float64 {
	mhz := g.MHz()
	if g.TimerStep > 0 {
		begin := time.Duration(g.Rand.Int64N(int64(g.TimerStep)))
		mhz *= float64(g.Gate) / float64((begin+g.Gate)/g.TimerStep*g.TimerStep)
	}
	g.reads++
	return mhz + g.Glitch[g.reads]
}

// settle lets the controller act for every period that has passed.
func (g *GPU) settle() {
	for g.Clock.Now()-g.begin >= g.Period {
		if g.MeanPeriods > 0 {
			g.slowly()
		} else if g.joules/g.Period.Seconds() > g.CapWatts {
			g.mhz = math.Max(g.MinMHz, g.mhz-g.StepDown)
		} else {
			g.mhz = math.Min(g.MaxMHz, g.mhz+g.StepUp)
		}
		g.joules = 0
		g.begin += g.Period
	}
}

// slowly is a loop over the mean of many periods.
func (g *GPU) slowly() {
	g.means = append(g.means, g.joules/g.Period.Seconds())
	if len(g.means) > g.MeanPeriods {
		g.means = g.means[1:]
	}
	over := measure.Mean(g.means)/g.CapWatts - 1
	step := g.StepDown * max(min(-over*20/float64(g.MeanPeriods), 1), -1)
	g.mhz = math.Max(g.MinMHz, math.Min(g.MaxMHz, g.mhz+step))
}

// Under is the clock while work of so many watts at full clock runs.
func (g *GPU) Under(watts float64) float64 {
	if g.FastWatts <= 0 || watts <= 0 {
		return g.mhz
	}
	return math.Min(g.mhz, g.MaxMHz*math.Pow(g.FastWatts/watts, 1/2.5))
}

// Execute runs for nominal seconds at full clock and returns the seconds it
// took; share is the part that follows the clock.
func (g *GPU) Execute(nominal, watts, share float64) float64 {
	total := 0.0
	for left := nominal; left > 1e-12; {
		g.settle()
		slow := share*g.MaxMHz/g.Under(watts) + 1 - share
		until := (g.begin + g.Period - g.Clock.Now()).Seconds()
		t := math.Min(left*slow, math.Max(until, 1e-9))
		g.Clock.Advance(time.Duration(math.Ceil(t * 1e9)))
		g.joules += t * watts * math.Pow(g.Under(watts)/g.MaxMHz, 1+g.Voltage)
		g.Cycles += t * g.Under(watts)
		left -= t / slow
		total += t
	}
	return total
}
