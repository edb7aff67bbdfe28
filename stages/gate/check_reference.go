package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/diff"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
)

// deviation checks that the ratio to another dataset stays within limits.
type deviation struct {
	Reference cty.Value `hcl:"reference" json:"-"`
	Median    *float64  `hcl:"median,optional" json:"median,omitempty"`
	P5Min     *float64  `hcl:"p5_min,optional" json:"p5_min,omitempty"`
	P95Max    *float64  `hcl:"p95_max,optional" json:"p95_max,omitempty"`

	ref *stage.Ref
}

func (c *deviation) refersTo() *stage.Ref { return c.ref }

func (c *deviation) title() string {
	if c.ref == nil {
		return "deviation"
	}
	return "deviation from " + c.ref.Address
}

func (c *deviation) prepare(r hcl.Range) hcl.Diagnostics {
	ref, diags := neededRef(c.Reference, r)
	c.ref = ref
	if c.Median == nil && c.P5Min == nil && c.P95Max == nil {
		diags = append(diags, problem("Deviation without limits",
			"Give median (how far p50 of the ratio may be from 1), p5_min, p95_max, or several.", r))
	}

	for _, l := range []struct {
		name string
		v    *float64
	}{{"median", c.Median}, {"p5_min", c.P5Min}, {"p95_max", c.P95Max}} {
		if l.v != nil {
			diags = append(diags, notNegative(l.name, *l.v, r)...)
		}
	}

	return diags
}

func neededRef(v cty.Value, r hcl.Range) (*stage.Ref, hcl.Diagnostics) {
	ref, err := stage.RefOf(v)
	if err != nil {
		return nil, hcl.Diagnostics{problem("Wrong reference", err.Error(), r)}
	}
	return ref, nil
}

func (c *deviation) run(s *subject) finding {
	if s.rec == nil || s.reference == nil || s.reference.Table == nil {
		return failed(fmt.Sprintf("there are no rows to compare with %s", c.ref.Address))
	}

	key, err := commonKey(s, c.ref.Address)
	if err != nil {
		return failed(err.Error())
	}

	o := diff.Options{Key: key, Worst: maxRows, By: []string{}}
	if t, ok := dedupe.PerfTable(s.ds); ok {
		o.Table, o.Key = t.Name, nil
	}

	if len(s.on) > 0 {
		o.On = map[string][]string{}
		for _, sel := range s.on {
			o.On[sel.Column] = sel.Values
		}
	}

	r, err := diff.Tables(s.reference.Table, s.rec, c.ref.Address, "this", o)
	if err != nil {
		return failed(err.Error())
	}

	out := finding{limit: c.limitText(), total: r.Common + r.B.Duplicates}
	out.left.add(r.B.Duplicates, "it repeats a key, and only one row of each is compared")

	for why, n := range r.UnusableWhy {
		out.left.add(n, why)
	}

	if r.Common == 0 {
		return failed("no row is common with " + c.ref.Address)
	}

	judged := out.total - out.left.count()
	if judged == 0 {
		return out
	}

	q := r.Ratio
	if q == nil {
		// Rows that are zero on both sides are equal but have no ratio.
		out.ok, out.message = true, fmt.Sprintf("%d common rows are zero here and in %s", judged, c.ref.Address)
		return out
	}

	var broken []string
	if c.Median != nil && math.Abs(q.P50-1) > *c.Median {
		broken = append(broken, fmt.Sprintf("p50 is more than %s from 1", number(*c.Median)))
	}

	if c.P5Min != nil && q.P5 < *c.P5Min {
		broken = append(broken, "p5 is below "+number(*c.P5Min))
	}

	if c.P95Max != nil && q.P95 > *c.P95Max {
		broken = append(broken, "p95 is above "+number(*c.P95Max))
	}

	out.ok, out.value = len(broken) == 0, fmt.Sprintf("p5 %.3f, p50 %.3f, p95 %.3f", q.P5, q.P50, q.P95)
	out.message = fmt.Sprintf("over %d common rows the ratio to %s has %s", judged, c.ref.Address, out.value)
	if !out.ok {
		out.message += ": " + strings.Join(broken, ", ")
		for _, w := range r.Worst {
			out.rows = append(out.rows, fmt.Sprintf("%s %s=%s reference=%s ratio=%.3f", w.Key, r.Metric, number(w.B),
				number(w.A), w.Ratio))
		}
	}

	return out
}

func (c *deviation) limitText() string {
	var parts []string
	if c.Median != nil {
		parts = append(parts, "|p50 - 1| at most "+number(*c.Median))
	}

	if c.P5Min != nil {
		parts = append(parts, "p5 at least "+number(*c.P5Min))
	}

	if c.P95Max != nil {
		parts = append(parts, "p95 at most "+number(*c.P95Max))
	}
	return strings.Join(parts, ", ")
}

// commonKey returns the columns that identify a row in the data and in the reference. Both must have all
// of them; otherwise different rows would look alike.
func commonKey(s *subject, whose string) ([]string, error) {
	key := s.fullKey()
	if err := s.lackingKey(s.rec, "the data", key); err != nil {
		return nil, err
	}

	if err := s.lackingKey(s.reference.Table, whose, key); err != nil {
		return nil, err
	}

	// The key columns of the reference are required too.
	theirs := (&subject{ds: s.reference}).key()
	for _, k := range theirs {
		if _, optional := tree.Defaults[k]; s.rec != nil && !optional && !slices.Contains(key, k) && column(s.rec, k) == nil {
			return nil, fmt.Errorf("the data lacks the column %s, which tells rows of %s apart", k, whose)
		}
	}

	if len(key) == 0 {
		return nil, fmt.Errorf("%s and the data have no key columns in common", whose)
	}

	return key, nil
}
