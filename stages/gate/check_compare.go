package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/diff"
	"aicplan/sink/table"
	"aicplan/stages/dedupe"
)

// compare limits percentiles of the ratio of each row to the row of another table with the same key.
type compare struct {
	// Reference is the stage or import with the other table.
	Reference cty.Value `hcl:"reference" json:"-"`
	// Median is the largest accepted distance of the median ratio from 1: 0.05 accepts 0.95 to 1.05. If it is
	// not set, the median is not checked.
	Median *float64 `hcl:"median,optional" json:"median,omitempty"`
	// Spread is the largest accepted distance of p5 and p95 from the median, and of the median of the rows of one word,
	// such as a kernel, if there are 20 of them or more, as a share of it.
	Spread *float64 `hcl:"spread,optional" json:"spread,omitempty"`
	// Outliers is the largest accepted share of rows whose ratio is off the median by a factor of 1.8 or more.
	Outliers *float64 `hcl:"outliers,optional" json:"outliers,omitempty"`

	References
}

func (c *compare) title() string { return titleOf("compare with", c.refs) }

// titleOf returns a verb with the addresses of other datasets.
func titleOf(verb string, refs []*stage.Ref) string {
	var names []string
	for _, r := range refs {
		names = append(names, r.Address)
	}
	return verb + " " + strings.Join(names, ", ")
}

// outlyingFactor is from which factor off the median ratio on a row is an outlier.
const outlyingFactor = 1.8

// outlying returns the share of rows whose ratio is off the median by outlyingFactor or more.
func outlying(r *diff.Comparison) float64 {
	_, ratios := r.Pairs()
	n := 0
	for _, ratio := range ratios {
		if ratio >= outlyingFactor*r.Ratio.P50 || ratio <= r.Ratio.P50/outlyingFactor {
			n++
		}
	}
	return float64(n) / float64(len(ratios))
}

// wordRows is how many rows of a word are compared with the others.
const wordRows = 20

// apart returns the word with the most rows whose median ratio is farther from that of all rows than a share of it, or
// nil. Words of few rows hardly show in the percentiles of a table.
func apart(r *diff.Comparison, share *float64) (most *diff.Group) {
	if share == nil {
		return nil
	}
	for i, g := range r.Groups {
		off := math.Abs(g.Ratio.P50/r.Ratio.P50-1) > *share
		if off && g.Rows >= wordRows && (most == nil || g.Rows > most.Rows) {
			most = &r.Groups[i]
		}
	}
	return most
}

// words returns the columns of the key that have text on both sides, and the kernel.
func (s *subject) words(key []string) []string {
	out := []string{}
	for _, name := range append(slices.Clone(key), "kernel_source") {
		_, err := table.Strings(s.reference(), name)
		if err == nil && table.Has(s.rec, name) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (c *compare) prepare(bad problems) {
	c.add(c.Reference, bad)
	if c.Median == nil && c.Spread == nil && c.Outliers == nil {
		bad("Comparison without limits",
			"Give median (how far p50 of the ratio may be from 1), spread, outliers, or several.")
	}

	for i, v := range []*float64{c.Median, c.Spread, c.Outliers} {
		if v != nil {
			bad.negative([]string{"median", "spread", "outliers"}[i], *v)
		}
	}
}

func (c *compare) run(s *subject) finding {
	address := c.refs[0].Address
	if s.rec == nil || s.reference() == nil {
		return failed("there are no rows to compare with " + address)
	}

	key, err := commonKey(s, address)
	if err != nil {
		return failed(err.Error())
	}

	o := diff.Options{Key: key, Worst: maxRows, By: s.words(key)}
	if t, ok := dedupe.PerfTable(s.ds); ok {
		o.Table, o.Key = t.Name, nil
	}

	r, err := diff.Tables(s.reference(), s.rec, address, "this", o)
	if err != nil {
		return failed(err.Error())
	}

	q := r.Ratio
	var asked, broken []string
	limit := func(v *float64, text string, exceeded func(v float64) bool) {
		if v == nil {
			return
		}
		text += " at most " + number(*v)
		asked = append(asked, text)
		if q != nil && exceeded(*v) {
			broken = append(broken, text)
		}
	}
	limit(c.Median, "|p50 - 1|", func(v float64) bool { return math.Abs(q.P50-1) > v })
	limit(c.Spread, "p5 and p95 from p50", func(v float64) bool { return q.P95 > q.P50*(1+v) || q.P5 < q.P50*(1-v) })
	if off := apart(r, c.Spread); off != nil {
		broken = append(broken, fmt.Sprintf("p50 of the %d rows of %s=%s, which is %.3f, at most %s from p50", off.Rows,
			off.Column, off.Value, off.Ratio.P50, number(*c.Spread)))
	}
	limit(c.Outliers, "the share of rows that are off the median by a factor of 1.8", func(v float64) bool {
		return outlying(r) > v
	})

	out := finding{limit: strings.Join(asked, ", "), total: r.Common + r.Added + r.B.Duplicates}
	out.left.add(r.Added, address+" has no row of its key")
	out.left.add(r.B.Duplicates, "it repeats a key, and only one row of each is compared")

	for why, n := range r.UnusableWhy {
		out.left.add(n, why)
	}

	if r.Common == 0 {
		return failed("no row is common with " + address)
	}

	judged := out.total - out.left.count()
	if judged == 0 {
		return out
	}

	if q == nil {
		// Rows that are zero on both sides are equal but have no ratio.
		out.ok, out.message = true, fmt.Sprintf("%d common rows are zero here and in %s", judged, address)
		return out
	}

	out.ok, out.value = len(broken) == 0, fmt.Sprintf("p5 %.3f, p50 %.3f, p95 %.3f", q.P5, q.P50, q.P95)
	out.message = fmt.Sprintf("over %d common rows the ratio to %s has %s", judged, address, out.value)
	if !out.ok {
		out.message += ", and not " + strings.Join(broken, ", ")
		for _, w := range r.Worst {
			out.rows = append(out.rows, fmt.Sprintf("%s %s=%s reference=%s ratio=%.3f", w.Key, r.Metric, number(w.B),
				number(w.A), w.Ratio))
		}
	}

	return out
}

// commonKey returns the columns that identify a row in the data and in the reference. Both must have all
// of them; otherwise different rows would look alike.
func commonKey(s *subject, whose string) ([]string, error) {
	key, theirs := s.fullKey(), (&subject{ds: s.others[0]}).key()
	if err := lackingKey(s.reference(), whose, key); err != nil {
		return nil, err
	}
	if err := lackingKey(s.rec, "the data", slices.Concat(key, theirs)); err != nil && s.rec != nil {
		return nil, err
	}

	if len(key) == 0 {
		return nil, fmt.Errorf("%s and the data have no key columns in common", whose)
	}

	return key, nil
}
