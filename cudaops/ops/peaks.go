package ops

import "math"

// Peaks are the peak rates of a device from its system spec, in bytes and operations per second.
// Zero means unknown.
type Peaks struct {
	MemBW float64
	Flops map[DType]float64
	Watts float64 // power limit of the board
}

// SpeedOfLight returns the roofline of a case in seconds, or 0 if a required peak is unknown.
func (p Peaks) SpeedOfLight(c *Case) float64 {
	var t float64
	if c.Bytes > 0 {
		if p.MemBW <= 0 {
			return 0
		}

		t = c.Bytes / p.MemBW
	}

	if c.DType != "" && c.Flops > 0 {
		peak := p.Flops[c.DType]
		if peak <= 0 {
			return 0
		}

		t = math.Max(t, c.Flops/peak)
	}

	return t
}

// Shares of the peaks that good kernels reach, and the time of the shortest kernel. They give a first
// estimate, which the first visit corrects.
const (
	reachedFlops  = 0.7
	reachedBytes  = 0.8
	shortest      = 2.5e-6
	typicalBW     = 2e12
	typicalFlops  = 400e12
	wattsPerFlops = 0.95 // share of the dynamic power at full tensor throughput
	wattsPerBytes = 0.45 // share at full memory bandwidth, see Draw
	// loadPerBytes replaces wattsPerBytes to decide which cases are capped, rankPerBytes to order
	// them, and rankPerKept is for bytes that stay in the cache. Together with operations, memory
	// draws rankPerBytes. Without them it never reduces the clock, which Load would predict with
	// that share.
	loadPerBytes = 0.6
	rankPerBytes = 0.8
	rankPerKept  = 0.4
	wattsAtLeast = 0.1
	typicalWatts = 500
)

// IdleShare is the share of the power limit that an idle device draws.
const IdleShare = 0.15

// typical returns the peaks that bound a case, with typical ones for those that are unknown: bytes per second
// of the memory, operations per second, and the power above idle in watts.
func (p Peaks) typical(c *Case) (bw, flops, watts float64) {
	or := func(v, typical float64) float64 {
		if v > 0 {
			return v
		}
		return typical
	}
	return or(p.MemBW, typicalBW), or(p.Flops[c.DType], typicalFlops), or(p.Watts, typicalWatts) * (1 - IdleShare)
}

// Estimate returns the estimated time of one execution in seconds, and the power above idle at full
// clock in watts.
func (p Peaks) Estimate(c *Case) (seconds, watts float64) {
	bw, flops, _ := p.typical(c)
	seconds = shortest + max(c.Bytes/bw/reachedBytes, c.Flops/flops/reachedFlops)
	return seconds, p.Draw(c, seconds)
}

// Load returns the estimated power above idle in watts that a case would draw at full clock, if an
// execution takes the given seconds at clock, a share of the full clock. It is not bounded by the
// device's limit, because it decides which cases are limited by the power cap.
func (p Peaks) Load(c *Case, seconds, clock float64) float64 {
	return p.weigh(c, seconds, clock, loadPerBytes, loadPerBytes)
}

// Rank is Load with the shares that best order products on an H200 by their sustained clock.
func (p Peaks) Rank(c *Case, seconds, clock float64) float64 {
	return p.weigh(c, seconds, clock, rankPerBytes, rankPerKept)
}

// weigh returns the power for the given shares of bytes from memory and bytes that stay in the
// cache, at full bandwidth.
func (p Peaks) weigh(c *Case, seconds, clock, perBytes, perKept float64) float64 {
	bw, flops, watts := p.typical(c)
	share := wattsPerFlops*c.Flops/(seconds*clock)/flops/reachedFlops +
		(perBytes*(c.Bytes-c.Kept)+perKept*c.Kept)/seconds/bw
	return watts * share
}

// Draw returns the estimated power above idle of a case that takes the given seconds, in watts. Memory
// traffic counts less than it draws, because its time hardly depends on the clock, and the clock is
// read before the next case.
func (p Peaks) Draw(c *Case, seconds float64) float64 {
	bw, flops, watts := p.typical(c)
	share := wattsPerFlops*math.Min(1, c.Flops/seconds/flops/reachedFlops) +
		wattsPerBytes*math.Min(1, c.Bytes/seconds/bw)
	return watts * math.Max(wattsAtLeast, share)
}
