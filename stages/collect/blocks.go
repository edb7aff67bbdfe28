package collect

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/collect/policy"
	"aicplan/stages/runtimes"
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

// settings returns the defaults with what the block sets.
func (b *MeasureBlock) settings() (measure.Settings, error) {
	s := measure.Defaults()
	if err := fill(&s, b); err != nil {
		return s, err
	}
	if b != nil && b.MaxSamples == nil {
		s.MaxSamples = max(s.MaxSamples, s.MinSamples)
	}
	if b != nil && b.MaxPasses == nil {
		s.MaxPasses = max(s.MaxPasses, s.Passes)
	}
	return s, s.Validate()
}

// unused returns the names of settings that the block sets and that are not in used, sorted. A flag that
// is set to false does not count.
func (b *MeasureBlock) unused(used []string) []string {
	set := stage.Fields(b)
	maps.DeleteFunc(set, func(name string, v any) bool { return v == false || slices.Contains(used, name) })
	return slices.Sorted(maps.Keys(set))
}

// fill overwrites the fields of a struct that a block sets. They have the same names, or those of the JSON tags.
func fill(to, block any) error {
	fields := stage.Fields(block)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		raw, err := json.Marshal(map[string]any{name: fields[name]})
		if err == nil {
			err = json.Unmarshal(raw, to)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
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
	// Floor is the shortest deadline once five cases are measured, as a duration. The default is "2m".
	Floor *string `hcl:"floor,optional"`
	// Factor times the longest case of the op so far is the deadline. The default is 10.
	Factor *float64 `hcl:"factor,optional"`
	// First is the deadline until five cases are measured. The default is "30m", "5m" on a cpu runtime, and at least
	// floor.
	First *string `hcl:"first,optional"`
}

// RuleBlock classifies failures. Rules of the plan take precedence over the class that the worker reports and over the
// built-in rules. The first match applies.
type RuleBlock struct {
	Name string `hcl:"name,label" json:"name"`
	// Match is a regular expression over the message and the traceback (of long ones the first and the last 16 KiB).
	Match string `hcl:"match,optional" json:"match,omitempty"`
	// Exception is a regular expression over the exception's class or the signal. If match is set as well, both must
	// match.
	Exception string `hcl:"exception,optional" json:"exception,omitempty"`
	// Class is the failure class that the rule assigns, such as "transient" or "unsupported_config".
	Class string `hcl:"class" json:"class"`
}

// defaultTrip is after of a breaker block.
const defaultTrip = 5

// settle fills in the defaults of the measurement and the failure policy. It calls bad for every error in the blocks.
func (c *Config) settle(bad func(summary, format string, args ...any)) {
	var err error
	if c.settings, err = c.Measure.settings(); err != nil {
		bad("Wrong measure block", "%s.", err)
	}
	if c.settings.Seed < 0 {
		bad("Wrong measure block", "seed is %d; it must not be negative.", c.settings.Seed)
	}

	l := policy.Defaults()
	l.Ramp = c.Ramp
	for i, n := range l.Ramp {
		if n < 1 || (i > 0 && n <= l.Ramp[i-1]) {
			bad("Wrong ramp", "ramp is %v; it lists growing numbers of cases, such as [4, 20, 100].", l.Ramp)
			break
		}
	}

	if c.Breaker != nil {
		l.TripAfter = defaultTrip
	}
	if c.runtime != nil && c.kind().FirstDeadline > 0 {
		l.First = worker.Duration(c.kind().FirstDeadline)
	}
	for i, block := range []any{c.Breaker, c.Retry, c.Deadline} {
		if err := fill(&l, block); err != nil {
			bad("Wrong "+[]string{"breaker", "retry", "deadline"}[i]+" block", "%s.", err)
		}
	}

	if l.TripAfter < 0 {
		bad("Wrong breaker block", "after is %d; it must not be negative.", l.TripAfter)
	}
	for i, n := range []int{l.Transient, l.OOM, l.Timeout, l.Crash} {
		if n < 0 || n > 100 {
			bad("Wrong retry block", "%s is %d; it must be between 0 and 100.",
				[]string{"transient", "oom", "timeout", "crash"}[i], n)
		}
	}
	if !(l.Factor >= 1) {
		bad("Wrong deadline block", "factor is %v; it must be at least 1.", l.Factor)
	}
	if c.Deadline == nil || c.Deadline.First == nil {
		l.First = max(l.First, l.Floor)
	}
	c.limits = l

	for _, b := range c.Rules {
		rule, err := policy.NewRule(b.Match, b.Exception, b.Class)
		if err != nil {
			bad("Wrong rule", "rule %q: %s.", b.Name, err)
		}
		c.rules = append(c.rules, rule)
	}
}

// DecodeBody implements stage.BodyDecoder. Blocks that collect does not define may belong to the runtime
// kind.
func (c *Config) DecodeBody(body hcl.Body, eval stage.Evaluator) hcl.Diagnostics {
	native := body.(*hclsyntax.Body)
	words := stage.TagWords(c)[""]
	common := *native
	common.Blocks = nil
	var own hclsyntax.Blocks
	for _, b := range native.Blocks {
		if slices.Contains(words, b.Type) {
			common.Blocks = append(common.Blocks, b)
		} else {
			own = append(own, b)
		}
	}

	diags := stage.Decode(&common, eval, c)
	rt, err := stage.RuntimeOf(c.Runtime)
	if err != nil {
		return diags // Check reports the error
	}

	kind := c.pools.Kind(rt.Kind)
	for _, b := range common.Blocks {
		if b.Type == "measure" && len(kind.Measure) == 0 {
			stage.AddError(&diags, b.DefRange(), "Wrong measure block",
				"Runtimes of kind %s do not use a measure block; remove it.", rt.Kind)
		}
	}

	if len(own) == 0 {
		return diags
	}

	rest := &hclsyntax.Body{Blocks: own, SrcRange: native.SrcRange, EndRange: native.EndRange}
	ctx, more := eval.Context(stage.Expressions(rest), nil)
	diags = append(diags, more...)
	if more.HasErrors() {
		return diags
	}

	in := &stage.Own{What: "a collect on a runtime of kind " + rt.Kind, Blocks: kind.Collect}
	c.blocks, more = in.Decode(rest, ctx)
	return append(diags, more...)
}

// plainBlocks returns the values of blocks as for keys.
func plainBlocks(blocks map[string]cty.Value) map[string]any {
	out := map[string]any{}
	for name, v := range blocks {
		out[name] = stage.Plain(v)
	}
	return out
}

// workerBlocks returns all blocks of the runtime's kind as JSON for the worker.
func (c *Config) workerBlocks() (json.RawMessage, error) {
	if len(c.blocks) == 0 {
		return nil, nil
	}

	out := map[string]any{}
	for name, v := range c.blocks {
		plain, err := runtimes.Plain(v)
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", name, err)
		}
		out[name] = plain
	}
	return json.Marshal(out)
}

// measured returns the measure settings that are part of keys, or nil if the workers use none.
func (c *Config) measured() any {
	if len(c.kind().Measure) == 0 {
		return nil
	}
	s := c.settings
	if !slices.Contains(c.kind().Measure, "operating_point") {
		s.OperatingPoint = "" // workers without a power cap have no operating point
	}
	return s
}

// Words implements stage.BodyDecoder.
func (c *Config) Words() stage.Vocabulary { return stage.TagWords(c) }
