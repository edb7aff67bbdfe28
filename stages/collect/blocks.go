package collect

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"aicplan/cudaops/measure"
)

// MeasureBlock overrides measurement settings; see measure.Settings.
type MeasureBlock struct {
	// Protocol is "adaptive", or "reference" for what the collectors of aiconfigurator do.
	Protocol *string `hcl:"protocol,optional"`
	// OperatingPoint is the state of the device: "sustained" or "recovered".
	OperatingPoint *string `hcl:"operating_point,optional"`
	// MinSamples is the smallest number of blocks of a pass.
	MinSamples *int `hcl:"min_samples,optional"`
	// MaxSamples is the largest number of blocks of a pass. If only min_samples is set, it is at least that.
	MaxSamples *int `hcl:"max_samples,optional"`
	// TargetRelStdev ends a pass if the relative deviation (stdev / mean) of its blocks is at most this.
	TargetRelStdev *float64 `hcl:"target_rel_stdev,optional"`
	// MinBlockSeconds is the shortest block in seconds, so that the resolution of the timer does not matter.
	MinBlockSeconds *float64 `hcl:"min_block_seconds,optional"`
	// MaxPassSeconds ends a pass that has min_samples blocks, in seconds.
	MaxPassSeconds *float64 `hcl:"max_pass_seconds,optional"`
	// WarmupSeconds is how long the case runs before every pass, in seconds; at least one execution.
	WarmupSeconds *float64 `hcl:"warmup_seconds,optional"`
	// Passes is the number of separate passes of every case.
	Passes *int `hcl:"passes,optional"`
	// MaxPasses is the largest number of passes if passes disagree. If only passes is set, it is at least that.
	MaxPasses *int `hcl:"max_passes,optional"`
	// PassTolerance is the largest max/min - 1 of the medians of passes that agree.
	PassTolerance *float64 `hcl:"pass_tolerance,optional"`
	// IdleGapSeconds is the pause before every pass in seconds; at least 0.2 ms on cuda and 4 ms on python with a GPU.
	IdleGapSeconds *float64 `hcl:"idle_gap_seconds,optional"`
	// Graph is "prefer" (capture executions in a CUDA graph, run eagerly if that fails), "require" or "off".
	Graph *string `hcl:"graph,optional"`
	// Power measures power and energy, too.
	Power *bool `hcl:"power,optional"`
	// PowerMinSeconds is how long a case runs to measure power, in seconds.
	PowerMinSeconds *float64 `hcl:"power_min_seconds,optional"`
	// Seed fills operands and draws the order of cases.
	Seed *int `hcl:"seed,optional"`
}

func (b *MeasureBlock) settings() measure.Settings {
	s := measure.Defaults()
	if b == nil {
		return s
	}

	override(&s.Protocol, b.Protocol)
	override(&s.OperatingPoint, b.OperatingPoint)
	override(&s.MinSamples, b.MinSamples)
	override(&s.MaxSamples, b.MaxSamples)
	if b.MinSamples != nil && b.MaxSamples == nil {
		s.MaxSamples = max(s.MaxSamples, *b.MinSamples)
	}

	override(&s.TargetRelStdev, b.TargetRelStdev)
	override(&s.MinBlockSeconds, b.MinBlockSeconds)
	override(&s.MaxPassSeconds, b.MaxPassSeconds)
	override(&s.WarmupSeconds, b.WarmupSeconds)
	override(&s.Passes, b.Passes)
	override(&s.MaxPasses, b.MaxPasses)
	if b.Passes != nil && b.MaxPasses == nil {
		s.MaxPasses = max(s.MaxPasses, *b.Passes)
	}

	override(&s.PassTolerance, b.PassTolerance)
	override(&s.IdleGapSeconds, b.IdleGapSeconds)
	override(&s.Graph, b.Graph)
	override(&s.Power, b.Power)
	override(&s.PowerMinSeconds, b.PowerMinSeconds)
	if b.Seed != nil {
		s.Seed = int64(*b.Seed)
	}

	return s
}

// unused returns the names of settings that the block sets and that are not in used, sorted. A flag that
// is set to false does not count.
func (b *MeasureBlock) unused(used []string) []string {
	if b == nil {
		return nil
	}

	var out []string
	for v, i := reflect.ValueOf(*b), 0; i < v.NumField(); i++ {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("hcl"), ",")
		field := v.Field(i)
		if field.IsNil() || slices.Contains(used, name) {
			continue
		}
		if on, isFlag := field.Interface().(*bool); isFlag && !*on {
			continue
		}
		out = append(out, name)
	}

	slices.Sort(out)
	return out
}

func override[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// RampBlock configures when a rung of the ramp fails.
type RampBlock struct {
	// Rungs lists the sizes of the samples, in growing order.
	Rungs []int `hcl:"rungs,optional"`
	// MaxFailed is the share of failed cases above which a sample fails. The default is 0.5.
	MaxFailed *float64 `hcl:"max_failed,optional"`
	// Group is the number of failed cases of one breaker group without a measured case that fails a sample. Zero
	// disables the check. The default is 2.
	Group *int `hcl:"whole_group,optional"`
}

// BreakerBlock stops groups that fail from their first case on.
type BreakerBlock struct {
	// GroupBy lists the columns whose values form a group. The default is one group of all cases.
	GroupBy []string `hcl:"group_by,optional"`
	// After is the number of failures from the first case on that stops a group. Zero disables the breaker. The
	// default is 5.
	After *int `hcl:"after,optional"`
}

// RetryBlock configures how often a failed case is retried, by cause.
type RetryBlock struct {
	// Transient applies to errors that may pass. The default is 1.
	Transient *int `hcl:"transient,optional"`
	// OOM applies to lack of memory. The case runs on a fresh worker and a clean device. The default is 1.
	OOM *int `hcl:"oom,optional"`
	// Timeout applies to cases that exceeded their deadline. The default is 0.
	Timeout *int `hcl:"timeout,optional"`
	// Crash applies to cases whose worker process ended. The default is 0.
	Crash *int `hcl:"crash,optional"`
}

// DeadlineBlock configures the deadline of a case.
type DeadlineBlock struct {
	// Floor is the shortest deadline, as a duration. The default is "2m".
	Floor *string `hcl:"floor,optional"`
	// Factor times the longest case of the op so far is the deadline. The default is 10.
	Factor *float64 `hcl:"factor,optional"`
	// First is the deadline until five cases are measured. The default is "30m", "5m" on a cpu runtime.
	First *string `hcl:"first,optional"`
}

// Defaults of the failure policy.
const (
	defaultRampShare = 0.5
	defaultRampGroup = 2
	defaultTrip      = 5  // breaker block without after
	defaultTripAll   = 20 // no breaker block
	defaultFloor     = 2 * time.Minute
	defaultFirst     = 30 * time.Minute
	defaultFactor    = 10
	minHistory       = 5
)

// problem is one error in the config.
type problem struct{ summary, detail string }

// settle fills in the defaults and returns the errors in the blocks.
func (c *Config) settle() []problem {
	var out []problem
	bad := func(summary, format string, args ...any) {
		out = append(out, problem{summary, fmt.Sprintf(format, args...)})
	}

	c.settings = c.Measure.settings()
	if err := c.settings.Validate(); err != nil {
		bad("Wrong measure block", "%s.", err)
	}

	if c.settings.Seed < 0 {
		bad("Wrong measure block", "seed is %d; it must not be negative.", c.settings.Seed)
	}

	l := limits{
		rungs: c.Ramp, rampShare: defaultRampShare, rampGroup: defaultRampGroup, tripAfter: defaultTripAll,
		transient: 1, oom: 1, floor: defaultFloor, first: defaultFirst, factor: defaultFactor, minHistory: minHistory,
	}

	if b := c.RampRule; b != nil {
		if len(c.Ramp) > 0 {
			bad("Two ramps", "ramp is given as a list and as a block; keep one.")
		}

		l.rungs = b.Rungs
		override(&l.rampShare, b.MaxFailed)
		override(&l.rampGroup, b.Group)
		if !(l.rampShare >= 0 && l.rampShare <= 1) {
			bad("Wrong ramp block", "max_failed is %v; it is a share between 0 and 1.", l.rampShare)
		}
		if l.rampGroup < 0 {
			bad("Wrong ramp block", "whole_group is %d; it must not be negative.", l.rampGroup)
		}
	}

	for i, n := range l.rungs {
		if n < 1 || (i > 0 && n <= l.rungs[i-1]) {
			bad("Wrong ramp", "ramp is %v; it lists growing numbers of cases, such as [4, 20, 100].", l.rungs)
			break
		}
	}

	if b := c.Breaker; b != nil {
		l.groupBy, l.tripAfter = b.GroupBy, defaultTrip
		override(&l.tripAfter, b.After)
		if l.tripAfter < 0 {
			bad("Wrong breaker block", "after is %d; it must not be negative.", l.tripAfter)
		}
	}

	if b := c.Retry; b != nil {
		for _, f := range []struct {
			name string
			to   *int
			from *int
		}{{"transient", &l.transient, b.Transient}, {"oom", &l.oom, b.OOM}, {"timeout", &l.timeout, b.Timeout},
			{"crash", &l.crash, b.Crash}} {
			override(f.to, f.from)
			if *f.to < 0 || *f.to > 100 {
				bad("Wrong retry block", "%s is %d; it must be between 0 and 100.", f.name, *f.to)
			}
		}
	}

	if b := c.Deadline; b != nil {
		override(&l.factor, b.Factor)
		if !(l.factor >= 1) {
			bad("Wrong deadline block", "factor is %v; it must be at least 1.", l.factor)
		}

		for _, f := range []struct {
			name string
			to   *time.Duration
			from *string
		}{{"floor", &l.floor, b.Floor}, {"first", &l.first, b.First}} {
			if f.from == nil {
				continue
			}
			d, err := time.ParseDuration(*f.from)
			if err != nil || d <= 0 {
				bad("Wrong deadline block", "%s is %q; it must be a duration such as \"90s\" or \"5m\".", f.name, *f.from)
				continue
			}
			*f.to = d
		}
	}

	l.first = max(l.first, l.floor)
	c.limits = l
	var err error
	if c.rules, err = compileRules(c.Rules); err != nil {
		bad("Wrong rule", "%s.", err)
	}

	for i, name := range c.Environment {
		if name == "" || slices.Contains(c.Environment[:i], name) {
			bad("Wrong environment", "environment lists %q; it names fields, each once: framework, version, device, or one that the worker reports.", name)
		}
	}

	return out
}
