// Package measure is the measurement algorithm, free of CUDA: it decides how
// often, in which order and with which pauses a prepared case is timed, and
// turns the samples into one latency with its statistics. It runs against
// interfaces, so tests drive it with a virtual clock.
package measure

import (
	"context"
	"time"
)

// Target is one case prepared on a device.
type Target interface {
	// Block runs n executions back to back and reports their device time as a
	// whole. It returns when they are finished.
	Block(ctx context.Context, n int) (Block, error)
}

// Block is one timed block of back-to-back executions.
type Block struct {
	Seconds  float64 // device time of all n executions together
	ClockMHz float64 // SM clock read on the device around the block; 0 if unknown
	// ReadyMHz is the SM clock just before the burst, with nothing running; 0 if
	// unknown. It shows what the power controller remembers of earlier work.
	ReadyMHz float64
	// Throttled reports whether the driver named a throttle reason during the block; nil
	// if it was not queried.
	Throttled *bool
	UsedGraph bool // the executions were replayed from a captured graph
	// LaunchBound reports whether the device may have waited for launches of the host; nil if unknown.
	LaunchBound *bool
	// Executions is how many there were when a target rounds up what it was
	// asked for (a graph holds several); 0 means as many as asked.
	Executions int
}

// Clock is the time that the algorithm sees.
type Clock interface {
	Now() time.Duration
	// Sleep waits, or returns early with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// Measured is one measured case. Times are milliseconds per execution.
type Measured struct {
	Latency     float64  // the value that the perf file gets
	Samples     int      // blocks that count
	RelStdev    *float64 // standard deviation / mean over the samples; nil for fewer than two
	P10, P90    float64
	Passes      int     // separate visits to the case
	PassSpread  float64 // max/min - 1 of the visits' medians
	Executions  int     // all executions, warm-up included
	ClockMHz    float64 // median device clock over the samples; 0 if unknown
	ReadyMHz    float64 // median clock before the bursts, with nothing running; 0 if unknown
	Throttled   *bool   // nil if unknown
	UsedGraph   bool
	LaunchBound *bool   // nil if unknown
	BlockMillis float64 // median length of one timed block
	Protocol    string
	// OperatingPoint is the state that the device was in; empty if it is not controlled.
	OperatingPoint string
	// Spent is the time of the case's own visits if cases are measured in batches and
	// end together; 0 otherwise.
	Spent time.Duration
	// ClockSeenMHz is the mean clock of the blocks if Latency is stated at another clock
	// (ClockMHz), and ClockSlope is -d ln(time) / d ln(clock). 0 and nil otherwise.
	ClockSeenMHz float64
	ClockSlope   *float64
}

// merge sets is if it or seen is set; nil changes nothing.
func merge(is **bool, seen *bool) {
	if seen != nil {
		either := *seen || *is != nil && **is
		*is = &either
	}
}

// statistics fills in what follows from the samples (seconds an execution), the
// medians of the visits and the lengths of the blocks (seconds).
func (r *Measured) statistics(medians, samples, lengths []float64) {
	r.Latency = Mean(medians) * 1e3
	r.Samples = len(samples)
	r.RelStdev = Scatter(samples)
	r.P10, r.P90 = Percentile(samples, 0.1)*1e3, Percentile(samples, 0.9)*1e3
	r.BlockMillis = Median(lengths) * 1e3
}
