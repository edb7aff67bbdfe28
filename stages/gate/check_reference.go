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
	"aicplan/sink/phrase"
	"aicplan/sink/rowkey"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
)

// deviation: the ratio to another dataset stays within limits.
type deviation struct {
	Reference cty.Value `hcl:"reference" json:"-"`
	Median    *float64  `hcl:"median,optional" json:"median,omitempty"`
	P5Min     *float64  `hcl:"p5_min,optional" json:"p5_min,omitempty"`
	P95Max    *float64  `hcl:"p95_max,optional" json:"p95_max,omitempty"`
	// Min is the least number of common rows.
	Min    int      `hcl:"min,optional" json:"min"`
	Key    []string `hcl:"key,optional" json:"key,omitempty"`
	Metric string   `hcl:"column,optional" json:"column,omitempty"`

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
		diags = append(diags, problem("Deviation without limits", "Give median (how far p50 of the ratio may be from 1), p5_min, p95_max, or several.", r))
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
	o := diff.Options{Key: c.Key, Metric: c.Metric, Worst: maxRows, By: []string{}}
	if t, ok := dedupe.PerfTable(s.ds); ok {
		o.Table = t.Name
	}
	if len(o.Key) == 0 {
		key, err := commonKey(s, c.ref.Address)
		if err != nil {
			return failed(err.Error())
		}
		if o.Table == "" {
			o.Key = key
		}
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
	if r.Common < max(c.Min, 1) {
		return failed(fmt.Sprintf("%d rows are common with %s, and at least %d are needed to judge", r.Common, c.ref.Address, max(c.Min, 1)))
	}
	judged := out.total - out.left.count()
	if judged == 0 {
		return out
	}
	if judged < c.Min {
		return failed(fmt.Sprintf("%d rows have a ratio to %s, and at least %d are needed to judge; the others: %s", judged, c.ref.Address, c.Min, out.left.text()))
	}
	q := r.Ratio
	if q == nil {
		// Rows that are zero on both sides are equal without a ratio.
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
			out.rows = append(out.rows, fmt.Sprintf("%s %s=%s reference=%s ratio=%.3f", w.Key, r.Metric, number(w.B), number(w.A), w.Ratio))
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

// rowCount: the number of rows is like that of another system's table.
type rowCount struct {
	Reference cty.Value `hcl:"reference" json:"-"`
	Min       float64   `hcl:"min,optional" json:"min"`
	Max       *float64  `hcl:"max,optional" json:"max,omitempty"`
	By        []string  `hcl:"by,optional" json:"by,omitempty"`

	ref *stage.Ref
}

func (c *rowCount) refersTo() *stage.Ref { return c.ref }
func (c *rowCount) title() string {
	if c.ref == nil {
		return "row_count"
	}
	return "row_count against " + c.ref.Address
}

func (c *rowCount) prepare(r hcl.Range) hcl.Diagnostics {
	ref, diags := neededRef(c.Reference, r)
	c.ref = ref
	diags = append(diags, notNegative("min", c.Min, r)...)
	if c.Max != nil && *c.Max < c.Min {
		diags = append(diags, problem("Empty range", fmt.Sprintf("min %s is above max %s.", number(c.Min), number(*c.Max)), r))
	}
	return diags
}

func (c *rowCount) run(s *subject) finding {
	if s.rec == nil || s.reference == nil || s.reference.Table == nil {
		return failed(fmt.Sprintf("there are no rows to compare with %s", c.ref.Address))
	}
	key, err := commonKey(s, c.ref.Address)
	if err != nil {
		return failed(err.Error())
	}
	var left, theirLeft leftover
	ours, err := countBy(s.ds, key, c.By, s.on, &left)
	if err != nil {
		return failed(err.Error())
	}
	theirs, err := countBy(s.reference, key, c.By, s.on, &theirLeft)
	if err != nil {
		return failed(fmt.Sprintf("%s: %v", c.ref.Address, err))
	}
	groups := map[string]bool{}
	for g := range ours {
		groups[g] = true
	}
	for g := range theirs {
		groups[g] = true
	}
	names := make([]string, 0, len(groups))
	for g := range groups {
		names = append(names, g)
	}
	slices.Sort(names)
	out := finding{ok: true, limit: "at least " + number(c.Min) + " times", total: s.selected, left: left}
	if c.Max != nil {
		out.limit += ", at most " + number(*c.Max) + " times"
	}
	least := math.Inf(1)
	a, b := 0, 0
	for _, g := range names {
		a, b = a+ours[g], b+theirs[g]
		ratio := math.Inf(1)
		if theirs[g] > 0 {
			ratio = float64(ours[g]) / float64(theirs[g])
		}
		least = min(least, ratio)
		if ratio < c.Min || c.Max != nil && ratio > *c.Max {
			out.ok = false
			out.rows = append(out.rows, strings.TrimSpace(fmt.Sprintf("%s %d rows, %s has %d", g, ours[g], c.ref.Address, theirs[g])))
		}
	}
	if b == 0 {
		return failed(fmt.Sprintf("%s has no usable rows to count against", c.ref.Address))
	}
	// Too few rows are too few, whatever the others are.
	out.definite = !out.ok
	out.value = number(least)
	out.message = fmt.Sprintf("%d rows, %s has %d", a, c.ref.Address, b)
	if n := theirLeft.count(); n > 0 {
		out.message += fmt.Sprintf(" (and %d that are not counted: %s)", n, theirLeft.text())
	}
	if len(c.By) > 0 {
		out.message += fmt.Sprintf("; the least ratio of a group of %s is %s", strings.Join(c.By, ", "), number(least))
	}
	return out
}

// countBy counts the usable rows with a key of their own per combination of
// columns; left says what was not counted.
func countBy(ds *stage.Dataset, key, by []string, on []selection, left *leftover) (map[string]int, error) {
	rec := ds.Table
	for _, b := range by {
		if column(rec, b) == nil {
			return nil, &table.MissingError{Name: b, Have: columnNames(rec)}
		}
	}
	keep, err := matching(rec, on)
	if err != nil {
		return nil, err
	}
	s := &subject{ds: ds, rec: rec}
	metric := s.metric()
	values, err := numbers(rec, metric)
	if err != nil {
		return nil, err
	}
	ix := rowkey.New(key, rowkey.Options{Missing: tree.Defaults})
	ids, err := ix.Number(rec)
	if err != nil {
		return nil, err
	}
	taken := make([]bool, ix.Len())
	out := map[string]int{}
	for i, k := range keep {
		if !k {
			continue
		}
		switch why := values.unfit(metric, i, zeroAllowed(ds)); {
		case why != "":
			left.row(i, why)
		case taken[ids[i]]:
			left.row(i, "it repeats a key")
		default:
			taken[ids[i]] = true
			out[describeCells(rec, i, by)]++
		}
	}
	return out, nil
}

// failures: cases that ended without a row, by class.
type failures struct {
	Max     *int     `hcl:"max,optional" json:"max,omitempty"`
	Share   *float64 `hcl:"share,optional" json:"share,omitempty"`
	Classes []string `hcl:"classes,optional" json:"classes,omitempty"`
	By      []string `hcl:"by,optional" json:"by,omitempty"`
}

func (c *failures) title() string {
	if len(c.Classes) == 0 {
		return "failures"
	}
	return "failures " + strings.Join(c.Classes, "+")
}

func (c *failures) prepare(r hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if c.Max == nil && c.Share == nil {
		zero := 0
		c.Max = &zero
	}
	if c.Max != nil {
		diags = append(diags, notNegative("max", float64(*c.Max), r)...)
	}
	if c.Share != nil && !(*c.Share >= 0 && *c.Share <= 1) {
		diags = append(diags, problem("Wrong share", fmt.Sprintf("share is %s; it lies between 0 and 1.", number(*c.Share)), r))
	}
	for _, e := range c.Classes {
		if !slices.Contains(ledgerClasses, e) {
			diags = append(diags, problem("Unknown failure class", fmt.Sprintf("classes names %q.%s The classes are: %s.", e, phrase.DidYouMean(e, ledgerClasses), strings.Join(ledgerClasses, ", ")), r))
		}
	}
	return diags
}

func (c *failures) run(s *subject) finding {
	if s.ds.Planned == nil {
		return s.cannot("this data came from files, so there is no ledger of failures")
	}
	keep, err := matching(s.ds.Planned, s.on)
	if err != nil {
		return failed(err.Error())
	}
	ledger := ledgerByCase(s.ds)
	classes := map[string]int{}
	groups := map[string]int{}
	total, planned := 0, 0
	var rows []string
	for i, k := range keep {
		if !k {
			continue
		}
		planned++
		e := ledger.entry(s.ds.Planned, i)
		if e.class == "" || len(c.Classes) == 0 && e.status != "failed" || len(c.Classes) > 0 && !slices.Contains(c.Classes, e.class) {
			continue
		}
		total++
		classes[e.class]++
		if len(c.By) > 0 {
			groups[describeCells(s.ds.Planned, i, c.By)]++
		}
		if len(rows) < maxRows {
			rows = append(rows, fmt.Sprintf("%s (%s: %s)", describeCells(s.ds.Planned, i, s.ds.Info.Params), e.class, e.message))
		}
	}
	if planned == 0 {
		return failed("there are no planned cases to judge")
	}
	share := float64(total) / float64(planned)
	out := finding{total: planned, definite: true, ok: (c.Max == nil || total <= *c.Max) && (c.Share == nil || share <= *c.Share), value: fmt.Sprintf("%d (%s)", total, percent(share)), rows: rows}
	var limit []string
	if c.Max != nil {
		limit = append(limit, fmt.Sprintf("at most %d", *c.Max))
	}
	if c.Share != nil {
		limit = append(limit, "at most "+percent(*c.Share))
	}
	out.limit = strings.Join(limit, ", ")
	out.message = fmt.Sprintf("%d of %d cases failed", total, planned)
	if total > 0 {
		out.message += ": " + countsText(classes)
	}
	if len(groups) > 0 {
		out.message += "; by group: " + countsText(groups)
	}
	if !out.ok {
		out.fix = "the ledger has the tracebacks; apply -retry failed tries these cases again"
	}
	return out
}
