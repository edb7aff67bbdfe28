package ops

import "math"

// Peaks are what a device can do at best, from its system spec: bytes and
// operations per second. Zero values are unknown.
type Peaks struct {
	MemBW float64           `json:"mem_bw"`
	Flops map[DType]float64 `json:"flops"`
	// Link is the bandwidth between two GPUs, per direction.
	Link float64 `json:"link_bw"`
	// Watts is the board's power limit.
	Watts float64 `json:"power"`
}

// SpeedOfLight is the roofline of a case in seconds; 0 when a peak that it needs
// is unknown.
func (p Peaks) SpeedOfLight(c *Case) float64 {
	var t float64
	if c.Bytes > 0 {
		if p.MemBW <= 0 {
			return 0
		}
		t = c.Bytes / p.MemBW
	}
	if c.LinkBytes > 0 {
		if p.Link <= 0 {
			return 0
		}
		t = math.Max(t, c.LinkBytes/p.Link)
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

// Shares of the peaks that good kernels reach, and the time that the shortest
// kernel takes: a first estimate, corrected by the first visit.
const (
	reachedFlops  = 0.7
	reachedBytes  = 0.8
	shortest      = 2.5e-6
	typicalBW     = 2e12
	typicalLink   = 100e9
	typicalFlops  = 400e12
	wattsPerFlops = 0.95 // share of the dynamic power at full tensor throughput
	wattsPerBytes = 0.45 // and at full memory bandwidth: see Draw
	// loadPerBytes is wattsPerBytes where it tells which cases are capped, rankPerBytes
	// where it orders those, and rankPerKept for bytes that stay in the cache. Beside
	// operations, memory draws as much as rankPerBytes says; alone it never draws so
	// much that the clock falls, as Load would have it with that share.
	loadPerBytes = 0.6
	rankPerBytes = 0.8
	rankPerKept  = 0.4
	wattsAtLeast = 0.1
	idleShare    = 0.15 // of the power limit, drawn by an idle device
	typicalWatts = 500
)

// Estimate guesses the time of one execution in seconds and the watts above
// idle that the device would draw at full clock.
func (p Peaks) Estimate(c *Case) (seconds, watts float64) {
	bw, flops := p.MemBW, p.Flops[c.DType]
	if bw <= 0 {
		bw = typicalBW
	}
	if flops <= 0 {
		flops = typicalFlops
	}
	link := p.Link
	if link <= 0 {
		link = typicalLink
	}
	seconds = shortest + max(c.Bytes/bw/reachedBytes, c.Flops/flops/reachedFlops, c.LinkBytes/link/reachedBytes)
	return seconds, p.Draw(c, seconds)
}

// Load guesses the watts above idle that a case would draw at full clock, when an
// execution takes so many seconds at clock, the share of the full one. It is not
// bounded by what a device can do: it tells which cases the power cap holds back.
func (p Peaks) Load(c *Case, seconds, clock float64) float64 {
	return p.weigh(c, seconds, clock, loadPerBytes, loadPerBytes)
}

// Rank is Load with the shares that best order H200 products by the clock that
// they hold without end.
func (p Peaks) Rank(c *Case, seconds, clock float64) float64 {
	return p.weigh(c, seconds, clock, rankPerBytes, rankPerKept)
}

// weigh charges bytes that come from memory, and those that stay in the cache,
// with shares of the dynamic power at full bandwidth.
func (p Peaks) weigh(c *Case, seconds, clock, perBytes, perKept float64) float64 {
	limit := p.Watts
	if limit <= 0 {
		limit = typicalWatts
	}
	bw, flops := p.MemBW, p.Flops[c.DType]
	if bw <= 0 {
		bw = typicalBW
	}
	if flops <= 0 {
		flops = typicalFlops
	}
	share := wattsPerFlops*c.Flops/(seconds*clock)/flops/reachedFlops +
		(perBytes*(c.Bytes-c.Kept)+perKept*c.Kept)/seconds/bw
	return limit * (1 - idleShare) * share
}

// Draw guesses the watts above idle of a case that takes so many seconds. Moving
// memory is charged with less than it draws: its time hardly follows the clock,
// and what comes after it is guarded by reading the clock.
func (p Peaks) Draw(c *Case, seconds float64) float64 {
	limit := p.Watts
	if limit <= 0 {
		limit = typicalWatts
	}
	bw, flops := p.MemBW, p.Flops[c.DType]
	if bw <= 0 {
		bw = typicalBW
	}
	if flops <= 0 {
		flops = typicalFlops
	}
	share := wattsPerFlops*math.Min(1, c.Flops/seconds/flops/reachedFlops) + wattsPerBytes*math.Min(1,
		c.Bytes/seconds/bw)
	return limit * (1 - idleShare) * math.Max(wattsAtLeast, share)
}
