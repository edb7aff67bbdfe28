package gate

import (
	"cmp"
	"fmt"
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/physics"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// overLimit is the tolerated excess of a row's average power over the board's limit, as a share.
const overLimit = 0.05

// power checks that values are above zero and at most overLimit above the board's limit.
type power struct {
	Required bool      `hcl:"required,optional" json:"required"`
	System   cty.Value `hcl:"system,optional" json:"-"`

	spec *systems.Spec
}

func (c *power) prepare(r hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	c.spec, diags = optionalSystem(c.System, r)
	return diags
}

func optionalSystem(v cty.Value, r hcl.Range) (*systems.Spec, hcl.Diagnostics) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}

	spec, err := stage.SystemOf(v)
	if err != nil {
		return nil, hcl.Diagnostics{problem("Wrong system", err.Error(), r)}
	}
	return spec, nil
}

func (c *power) run(s *subject) finding {
	if column(s.rec, "power") == nil {
		if c.Required {
			return failed("the data has no column \"power\"; measure with power = true")
		}
		return s.cannot("the data has no column \"power\"; measure with power = true")
	}

	watts, err := numbers(s.rec, "power")
	if err != nil {
		return s.cannot(err.Error())
	}

	limits, err := c.limitOf(s, len(watts.val))
	if err != nil {
		return s.cannot(err.Error())
	}

	out := finding{limit: fmt.Sprintf("above 0, at most %s over the limit", percent(overLimit)), total: s.selected}
	var bad []offender

	highest := 0.0
	for i, v := range watts.val {
		switch {
		case !s.has(i):
			continue
		case watts.null[i] && !c.Required:
			out.left.row(i, "power is null")
			continue
		case math.IsNaN(v):
			bad = append(bad, offender{row: i, worse: math.Inf(1), note: "(no value)"})
			continue
		case v <= 0:
			bad = append(bad, offender{row: i, worse: 1 - v})
		case math.IsInf(v, 0):
			bad = append(bad, offender{row: i, worse: v})
			continue
		case limits[i] == 0:
			out.left.row(i, "no limit is known: give system")
		case v > limits[i]*(1+overLimit):
			bad = append(bad, offender{row: i, worse: v / limits[i]})
		}

		highest = max(highest, v)
	}

	judged := s.selected - out.left.count()
	if judged == 0 {
		return out
	}

	out.ok, out.value = len(bad) == 0, number(highest)+" W"
	out.message = fmt.Sprintf("%d of %d values of power are outside (0, limit]; the highest is %s W", len(bad),
		judged, number(highest))
	out.rows = s.worst(bad, s.metric(), "power", "power_limit")

	return out
}

// mostWatts is far above the limit of any board. A larger power_limit is wrong data and would let every
// row pass.
const mostWatts = 1e4

// limitOf returns the power limit of every row in watts, 0 if unknown.
func (c *power) limitOf(s *subject, n int) ([]float64, error) {
	out := make([]float64, n)
	var own series
	if column(s.rec, "power_limit") != nil {
		var err error
		if own, err = numbers(s.rec, "power_limit"); err != nil {
			return nil, err
		}
	}

	for i := range out {
		switch {
		case own.val != nil && own.val[i] > 0 && own.val[i] <= mostWatts:
			out[i] = own.val[i]
		case c.spec != nil:
			out[i] = c.spec.GPU.Power
		}
	}

	return out, nil
}

// light checks that no row is faster than the hardware allows.
type light struct {
	System    cty.Value `hcl:"system" json:"-"`
	Tolerance float64   `hcl:"tolerance,optional" json:"tolerance"`

	spec *systems.Spec
}

func (c *light) prepare(r hcl.Range) hcl.Diagnostics {
	spec, diags := optionalSystem(c.System, r)
	c.spec = spec
	if spec == nil && !diags.HasErrors() {
		diags = append(diags, problem("No system",
			"speed_of_light needs the system whose peaks it compares with, for example system.h200_sxm.", r))
	}
	return append(diags, notNegative("tolerance", c.Tolerance, r)...)
}

func (c *light) run(s *subject) finding {
	t, ok := dedupe.PerfTable(s.ds)
	if !ok || !physics.HasLight(t) {
		return s.cannot(fmt.Sprintf("there is no formula for the work of %q", cmp.Or(s.ds.Info.Perf, s.ds.Info.Op)))
	}

	if s.rec == nil {
		return finding{}
	}

	least, _ := physics.SpeedOfLight(s.rec, t, c.spec, physics.LightOptions{})
	metric := s.metric()
	lat, err := numbers(s.rec, metric)
	if err != nil {
		return s.cannot(err.Error())
	}

	out := finding{limit: "at most " + percent(1+c.Tolerance), total: s.selected}
	var bad []offender

	best := 0.0
	for i, l := range least {
		if !s.has(i) {
			continue
		}

		if why := lat.unfit(metric, i, false); why != "" {
			out.left.row(i, why)
			continue
		}

		if !(l > 0) {
			out.left.row(i, "its least time does not follow from its columns and the system's peaks")
			continue
		}

		share := l / lat.val[i]
		best = max(best, share)

		if share > 1+c.Tolerance {
			bad = append(bad, offender{row: i, worse: share,
				note: fmt.Sprintf("(at least %s ms: %s of the speed of light)", number(l), percent(share))})
		}
	}

	judged := s.selected - out.left.count()
	if judged == 0 {
		return out
	}

	out.ok, out.value = len(bad) == 0, percent(best)
	out.message = fmt.Sprintf("%d of %d rows are faster than %s allows; the fastest runs at %s of the speed of light", len(bad), judged, c.spec.Name, percent(best))
	out.rows = s.worst(bad, "kernel_source", metric)
	if !out.ok {
		out.fix = "look whether the kernel ran at all, whether its operands lay in the cache, and whether the clock is right"
	}

	return out
}

// throttled checks the share of rows that were measured while the driver reduced the clock.
type throttled struct {
	Max float64 `hcl:"max,optional" json:"max"`
}

func (c *throttled) prepare(r hcl.Range) hcl.Diagnostics { return shareBetween("max", c.Max, r) }

func (c *throttled) run(s *subject) finding {
	out, bad, judged := s.flagged("throttled", "whether it was throttled was not read", c.Max,
		func(v float64) bool { return v != 0 })
	if judged == 0 {
		return out
	}

	out.message = fmt.Sprintf("%d of %d rows were measured while the driver throttled", len(bad), judged)
	if !out.ok {
		out.rows = s.worst(bad, s.metric(), "sm_clock_mhz")
		out.fix = "longer idle gaps in the measure block keep the board under its power cap; lock the clocks where you may"
	}

	return out
}
