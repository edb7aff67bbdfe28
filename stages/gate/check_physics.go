package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/physics"
	"aicplan/stages/dedupe"
	"aicplan/systems"
)

// power: values lie above zero and below the board's limit.
type power struct {
	Limit     float64   `hcl:"limit,optional" json:"limit,omitempty"`
	Tolerance float64   `hcl:"tolerance,optional" json:"tolerance"`
	Required  bool      `hcl:"required,optional" json:"required"`
	System    cty.Value `hcl:"system,optional" json:"-"`
	Max       int       `hcl:"max,optional" json:"max"`

	spec *systems.Spec
}

func (c *power) limits() any {
	return struct {
		power
		System string `json:"system,omitempty"`
	}{*c, specName(c.spec)}
}

func specName(s *systems.Spec) string {
	if s == nil {
		return ""
	}
	return s.Name
}

func (c *power) prepare(r hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	c.spec, diags = optionalSystem(c.System, r)
	return slices.Concat(diags, notNegative("limit", c.Limit, r), notNegative("tolerance", c.Tolerance, r), notNegative("max", float64(c.Max), r))
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

func (c *power) run(s *subject) verdict {
	if column(s.rec, "power") == nil {
		if c.Required {
			return failed("the data has no column \"power\"; measure with power = true")
		}
		return skipped("the data has no column \"power\"")
	}
	watts, err := numbers(s.rec, "power")
	if err != nil {
		return failed(err.Error())
	}
	var own series
	if column(s.rec, "power_limit") != nil {
		if own, err = numbers(s.rec, "power_limit"); err != nil {
			return failed(err.Error())
		}
	}
	fallback := c.Limit
	if fallback == 0 && c.spec != nil {
		fallback = c.spec.GPU.Power
	}
	var bad []offender
	judged, highest, without := 0, 0.0, 0
	for i, v := range watts.val {
		switch {
		case !s.has(i):
			continue
		case watts.null[i] && !c.Required:
			continue
		case math.IsNaN(v):
			bad = append(bad, offender{row: i, worse: math.Inf(1), note: "(no value)"})
			continue
		}
		judged++
		limit := fallback
		if c.Limit == 0 && own.val != nil && own.val[i] > 0 {
			limit = own.val[i]
		}
		highest = max(highest, v)
		switch {
		case v <= 0:
			bad = append(bad, offender{row: i, worse: 1 - v})
		case limit == 0:
			without++
		case v > limit*(1+c.Tolerance):
			bad = append(bad, offender{row: i, worse: v / limit})
		}
	}
	if judged == 0 && len(bad) == 0 {
		return skipped("no row has a value of power")
	}
	if without == judged && judged > 0 && len(bad) == 0 {
		return skipped("no limit is known: the data has no power_limit; give limit or system")
	}
	out := verdict{ok: len(bad) <= c.Max, value: number(highest) + " W", limit: fmt.Sprintf("above 0, at most %s over the limit", percent(c.Tolerance))}
	out.message = fmt.Sprintf("%d of %d values of power are outside (0, limit]; the highest is %s W", len(bad), judged, number(highest))
	out.rows = s.worst(bad, "latency", "power", "power_limit")
	return out
}

// light: no row is faster than the hardware allows.
type light struct {
	System    cty.Value `hcl:"system" json:"-"`
	Tolerance float64   `hcl:"tolerance,optional" json:"tolerance"`
	Bound     string    `hcl:"bound,optional" json:"bound"`
	// CacheMB is how much of a row's operands may have been in the cache since
	// the execution before; operands that rotate leave it at 0.
	CacheMB float64 `hcl:"cache_mb,optional" json:"cache_mb,omitempty"`
	Max     int     `hcl:"max,optional" json:"max"`

	spec *systems.Spec
}

func (c *light) limits() any {
	return struct {
		light
		System string `json:"system"`
	}{*c, specName(c.spec)}
}

var bounds = []string{"both", "compute", "memory"}

func (c *light) prepare(r hcl.Range) hcl.Diagnostics {
	spec, diags := optionalSystem(c.System, r)
	c.spec = spec
	if spec == nil && !diags.HasErrors() {
		diags = append(diags, problem("No system", "speed_of_light needs the system whose peaks it compares with, for example system.h200_sxm.", r))
	}
	if !slices.Contains(bounds, c.Bound) {
		diags = append(diags, problem("Unknown bound", fmt.Sprintf("bound is %q; it must be \"both\", \"compute\" or \"memory\".", c.Bound), r))
	}
	return slices.Concat(diags, notNegative("tolerance", c.Tolerance, r), notNegative("cache_mb", c.CacheMB, r), notNegative("max", float64(c.Max), r))
}

func (c *light) run(s *subject) verdict {
	t, ok := dedupe.PerfTable(s.ds)
	if !ok || !physics.HasLight(t) {
		return skipped(fmt.Sprintf("there is no formula for the work of %q", cmp.Or(s.ds.Info.Perf, s.ds.Info.Op)))
	}
	if s.rec == nil {
		return failed("there is no table to judge")
	}
	least, _ := physics.SpeedOfLight(s.rec, t, c.spec, physics.LightOptions{Compute: c.Bound == "compute", Memory: c.Bound == "memory", Cache: c.CacheMB * 1e6})
	lat, err := numbers(s.rec, "latency")
	if err != nil {
		return failed(err.Error())
	}
	var bad []offender
	judged, best := 0, 0.0
	for i, l := range least {
		if !s.has(i) || l <= 0 || !(lat.val[i] > 0) {
			continue
		}
		judged++
		share := l / lat.val[i]
		best = max(best, share)
		if share > 1+c.Tolerance {
			bad = append(bad, offender{row: i, worse: share, note: fmt.Sprintf("(at least %s ms: %s of the speed of light)", number(l), percent(share))})
		}
	}
	if judged == 0 {
		return skipped("no row has the columns that its work follows from")
	}
	out := verdict{ok: len(bad) <= c.Max, value: percent(best), limit: "at most " + percent(1+c.Tolerance)}
	out.message = fmt.Sprintf("%d of %d rows are faster than %s allows; the fastest runs at %s of the speed of light", len(bad), judged, c.spec.Name, percent(best))
	out.rows = s.worst(bad, "kernel_source", "latency")
	if !out.ok {
		out.fix = "look whether the kernel ran at all, whether its operands lay in the cache, and whether the clock is right"
	}
	return out
}

// throttled: share of rows during which the driver held the clock back.
type throttled struct {
	Max float64 `hcl:"max,optional" json:"max"`
}

func (c *throttled) limits() any { return *c }

func (c *throttled) prepare(r hcl.Range) hcl.Diagnostics {
	if !(c.Max >= 0 && c.Max <= 1) {
		return hcl.Diagnostics{problem("Wrong share", fmt.Sprintf("max is %s; a share lies between 0 and 1.", number(c.Max)), r)}
	}
	return nil
}

func (c *throttled) run(s *subject) verdict {
	if column(s.rec, "throttled") == nil {
		return skipped("the data has no column \"throttled\": only measured rows carry it")
	}
	flags, err := numbers(s.rec, "throttled")
	if err != nil {
		return failed(err.Error())
	}
	var bad []offender
	judged := 0
	for i, v := range flags.val {
		if !s.has(i) || flags.null[i] {
			continue
		}
		judged++
		if v != 0 {
			bad = append(bad, offender{row: i})
		}
	}
	if judged == 0 {
		return skipped("no row says whether it was throttled")
	}
	share := float64(len(bad)) / float64(judged)
	out := verdict{ok: share <= c.Max, value: percent(share), limit: "at most " + percent(c.Max)}
	out.message = fmt.Sprintf("%d of %d rows were measured while the driver throttled", len(bad), judged)
	if !out.ok {
		out.rows = s.worst(bad, "latency", "sm_clock_mhz")
		out.fix = "longer idle gaps in the measure block keep the board under its power cap; lock the clocks where you may"
	}
	return out
}

// trend: latencies do not fall or spike while the work grows.
type trend struct {
	Along []string `hcl:"along,optional" json:"along,omitempty"`
	Ratio float64  `hcl:"ratio,optional" json:"ratio"`
	Floor float64  `hcl:"floor,optional" json:"floor"`
	Max   int      `hcl:"max,optional" json:"max"`

	spikes bool
}

func (c *trend) limits() any { return *c }

func (c *trend) prepare(r hcl.Range) hcl.Diagnostics {
	diags := slices.Concat(notNegative("max", float64(c.Max), r), notNegative("floor", c.Floor, r))
	switch {
	case c.spikes && !(c.Ratio > 1):
		diags = append(diags, problem("Wrong ratio", fmt.Sprintf("ratio is %s; a spike is a multiple of its neighbours, so it must be above 1.", number(c.Ratio)), r))
	case !c.spikes && !(c.Ratio > 0 && c.Ratio <= 1):
		diags = append(diags, problem("Wrong ratio", fmt.Sprintf("ratio is %s; a fall is a share of the smaller neighbour, so it must be above 0 and at most 1.", number(c.Ratio)), r))
	}
	return diags
}

func (c *trend) run(s *subject) verdict {
	if s.rec == nil {
		return failed("there is no table to judge")
	}
	rec, rows, err := s.selection()
	if err != nil {
		return failed(err.Error())
	}
	axes := c.Along
	if len(axes) == 0 {
		if axes = physics.AxesOf(rec, s.key()); len(axes) == 0 {
			return skipped("no column is known as an axis along which work grows; name one with \"along\"")
		}
	}
	find, what := physics.Falls, "fall below %s of the value before"
	if c.spikes {
		find, what = physics.Spikes, "stand above %s times both neighbours"
	}
	t, _ := dedupe.PerfTable(s.ds)
	floor := c.Floor
	if floor == 0 {
		floor = physics.FloorOf(t)
	}
	var bad []offender
	compared := 0
	for _, axis := range axes {
		found, n, err := find(rec, axis, s.key(), physics.TrendOptions{Ratio: c.Ratio, Floor: floor})
		if err != nil {
			return failed(err.Error())
		}
		compared += n
		for _, v := range found {
			worse := v.Ratio
			if !c.spikes {
				worse = 1 / v.Ratio
			}
			bad = append(bad, offender{row: original(rows, v.Row), worse: worse,
				note: fmt.Sprintf("(x %s against %s)", number(v.Ratio), s.describe(original(rows, v.Other), "latency"))})
		}
	}
	if compared == 0 {
		return skipped("no two rows differ along one axis alone and are above the floor")
	}
	out := verdict{ok: len(bad) <= c.Max, value: number(float64(len(bad))), limit: fmt.Sprintf("at most %d", c.Max)}
	out.message = fmt.Sprintf("%d of %d steps along %v "+what, len(bad), compared, axes, number(c.Ratio))
	out.rows = s.worst(bad, "kernel_source", "latency")
	if !out.ok {
		out.fix = "measure these rows and their neighbours again; when they stay, look at which kernel ran"
	}
	return out
}
