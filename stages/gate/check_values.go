package gate

import (
	"fmt"
	"math"

	"github.com/hashicorp/hcl/v2"

	"aicplan/cudaops/measure"
)

// positive checks that every value is finite and above zero.
type positive struct {
	// Column defaults to the table's metric.
	Column string `hcl:"column,optional" json:"column"`
}

func (c *positive) title() string {
	if c.Column == "" || c.Column == "latency" {
		return "positive"
	}
	return "positive " + c.Column
}

func (c *positive) prepare(hcl.Range) hcl.Diagnostics { return nil }

func (c *positive) run(s *subject) finding {
	name := c.Column
	if name == "" {
		name = s.metric()
	}

	col, err := numbers(s.rec, name)
	if err != nil {
		return s.cannot(err.Error())
	}

	zeroOK := name == s.metric() && zeroAllowed(s.ds)
	var bad []offender

	nulls, zeros, negative, infinite := 0, 0, 0, 0
	for i, v := range col.val {
		if !s.has(i) {
			continue
		}

		switch {
		case col.null[i]:
			nulls++
			bad = append(bad, offender{row: i, worse: math.Inf(1), note: "(null)"})

		case math.IsNaN(v) || math.IsInf(v, 0):
			infinite++
			bad = append(bad, offender{row: i, worse: math.Inf(1)})

		case v < 0:
			negative++
			bad = append(bad, offender{row: i, worse: 1 - v})

		case v == 0 && !zeroOK:
			zeros++
			bad = append(bad, offender{row: i, worse: 0})
		}
	}

	v := finding{ok: len(bad) == 0, value: number(float64(len(bad))), limit: "at most 0", total: s.selected}
	if s.selected == 0 {
		return v
	}

	if len(bad) == 0 {
		v.message = fmt.Sprintf("%d values of %s are finite and positive", s.selected, name)
		return v
	}

	v.message = fmt.Sprintf("%d of %d values of %s are not finite and positive (%d null, %d not finite, %d negative, %d zero)",
		len(bad), s.selected, name, nulls, infinite, negative, zeros)
	v.rows = s.worst(bad, name)
	v.fix = "collect these cases again with --replace, or look at what the runtime logged for them"

	return v
}

// rangeCheck checks that every value lies within [min, max].
type rangeCheck struct {
	Column string   `hcl:"column" json:"column"`
	Min    *float64 `hcl:"min,optional" json:"min,omitempty"`
	Max    *float64 `hcl:"max,optional" json:"max,omitempty"`
}

func (c *rangeCheck) title() string { return "range " + c.Column }

func (c *rangeCheck) prepare(r hcl.Range) hcl.Diagnostics {
	switch {
	case c.Min == nil && c.Max == nil:
		return hcl.Diagnostics{problem("Range without limits", "Give min, max or both.", r)}
	case c.Min != nil && c.Max != nil && *c.Min > *c.Max:
		return hcl.Diagnostics{problem("Empty range",
			fmt.Sprintf("min %s is above max %s.", number(*c.Min), number(*c.Max)), r)}
	}
	return nil
}

func (c *rangeCheck) limitText() string {
	switch {
	case c.Min != nil && c.Max != nil:
		return fmt.Sprintf("%s to %s", number(*c.Min), number(*c.Max))
	case c.Min != nil:
		return "at least " + number(*c.Min)
	}
	return "at most " + number(*c.Max)
}

func (c *rangeCheck) run(s *subject) finding {
	col, err := numbers(s.rec, c.Column)
	if err != nil {
		return s.cannot(err.Error())
	}

	lo, hi := math.Inf(1), math.Inf(-1)
	var bad []offender
	for i, v := range col.val {
		if !s.has(i) {
			continue
		}

		// NaN and infinity are outside every range, even one without an upper limit.
		switch {
		case math.IsNaN(v), math.IsInf(v, 0):
			bad = append(bad, offender{row: i, worse: math.Inf(1)})
			continue
		case c.Min != nil && v < *c.Min:
			bad = append(bad, offender{row: i, worse: *c.Min - v})
		case c.Max != nil && v > *c.Max:
			bad = append(bad, offender{row: i, worse: v - *c.Max})
		}

		lo, hi = min(lo, v), max(hi, v)
	}

	limit := c.limitText()
	out := finding{ok: len(bad) == 0, limit: limit, total: s.selected}
	if s.selected == 0 {
		return out
	}

	if lo <= hi {
		out.value = fmt.Sprintf("%s to %s", number(lo), number(hi))
	}

	if len(bad) == 0 {
		out.message = fmt.Sprintf("%d values of %s are within %s", s.selected, c.Column, limit)
		return out
	}

	out.message = fmt.Sprintf("%d of %d values of %s are outside %s", len(bad), s.selected, c.Column, limit)
	out.rows = s.worst(bad, c.Column)
	return out
}

// noise limits a percentile of the relative standard deviation.
type noise struct {
	Percentile float64 `hcl:"percentile,optional" json:"percentile"`
	Max        float64 `hcl:"max" json:"max"`
}

func (c *noise) title() string { return fmt.Sprintf("noise p%s", number(c.Percentile)) }

func (c *noise) prepare(r hcl.Range) hcl.Diagnostics {
	switch {
	case c.Percentile > 0 && c.Percentile <= 1:
		// The user probably wrote a share: percentile 0.95 of a hundred rows would be the smallest
		// value.
		return hcl.Diagnostics{problem("Wrong percentile",
			fmt.Sprintf("percentile is %s; it is a number of percent above 1 and at most 100. Write %s.",
				number(c.Percentile), number(100*c.Percentile)), r)}
	case !(c.Percentile > 1 && c.Percentile <= 100):
		return hcl.Diagnostics{problem("Wrong percentile",
			fmt.Sprintf("percentile is %s; it must be above 1 and at most 100, for example 95.", number(c.Percentile)), r)}
	}

	return notNegative("max", c.Max, r)
}

func (c *noise) run(s *subject) finding {
	const name = "rel_stdev"
	if column(s.rec, name) == nil {
		return s.cannot(fmt.Sprintf("the data has no column %q: only measured rows carry their spread", name))
	}

	col, err := numbers(s.rec, name)
	if err != nil {
		return s.cannot(err.Error())
	}

	out := finding{limit: "at most " + number(c.Max), total: s.selected}
	var vals []float64
	var bad []offender

	worst := 0.0
	for i, v := range col.val {
		if !s.has(i) {
			continue
		}

		if why := col.unfit(name, i, true); why != "" {
			out.left.row(i, why)
			continue
		}

		vals, worst = append(vals, v), max(worst, v)

		if v > c.Max {
			bad = append(bad, offender{row: i, worse: v})
		}
	}

	if len(vals) == 0 {
		return out
	}

	got := measure.Percentile(vals, c.Percentile/100)
	out.ok, out.value = got <= c.Max, number(got)
	out.message = fmt.Sprintf("p%s of %s is %s over %d rows (median %s, worst %s)", number(c.Percentile), name,
		number(got), len(vals), number(measure.Percentile(vals, 0.5)), number(worst))
	if !out.ok {
		out.rows = s.worst(bad, s.metric(), name)
		out.fix = "more samples or longer idle gaps in the measure block, a quieter machine, locked clocks"
	}

	return out
}

func notNegative(name string, v float64, r hcl.Range) hcl.Diagnostics {
	if v >= 0 {
		return nil
	}
	return hcl.Diagnostics{problem("Negative limit", fmt.Sprintf("%s is %s; it must be 0 or more.", name, number(v)), r)}
}
