package gate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/rowkey"
)

// duplicates: rows that share their key.
type duplicates struct {
	Max int      `hcl:"max,optional" json:"max"`
	By  []string `hcl:"by,optional" json:"by,omitempty"`
}

func (c *duplicates) limits() any { return *c }

func (c *duplicates) prepare(r hcl.Range) hcl.Diagnostics {
	return notNegative("max", float64(c.Max), r)
}

func (c *duplicates) run(s *subject) verdict {
	if s.rec == nil {
		return failed("there is no table to judge")
	}
	key := c.By
	if len(key) == 0 {
		key = s.key()
	}
	for _, k := range c.By {
		if column(s.rec, k) == nil {
			return failed(fmt.Sprintf("\"by\" names the column %q, which the data lacks.%s", k, didYouMean(k, columnNames(s.rec))))
		}
	}
	ix := rowkey.New(key, rowkey.Options{})
	ids, err := ix.Number(s.rec)
	if err != nil {
		return failed(err.Error())
	}
	lat, latErr := numbers(s.rec, "latency")
	type group struct {
		rows  []int
		ratio float64
	}
	surplus := 0
	var groups []group
	for _, rows := range rowkey.Groups(ids, ix.Len()) {
		rows = slices.DeleteFunc(rows, func(r int) bool { return !s.has(r) })
		if len(rows) < 2 {
			continue
		}
		surplus += len(rows) - 1
		g := group{rows: rows, ratio: math.NaN()}
		if latErr == nil {
			g.ratio = spread(lat, rows)
		}
		groups = append(groups, g)
	}
	out := verdict{ok: surplus <= c.Max, value: number(float64(surplus)), limit: fmt.Sprintf("at most %d", c.Max)}
	if surplus == 0 {
		out.message = fmt.Sprintf("%d rows, each with its own key", s.selected)
		return out
	}
	slices.SortStableFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), cmp.Compare(len(b.rows), len(a.rows)))
	})
	out.message = fmt.Sprintf("%d of %d rows repeat the key of an earlier row (%d keys; key: %s)", surplus, s.selected, len(groups), strings.Join(key, ", "))
	for _, g := range groups[:min(len(groups), maxRows)] {
		text := fmt.Sprintf("%s: %d rows", rowkey.Describe(s.rec, g.rows[0], key), len(g.rows))
		if !math.IsNaN(g.ratio) {
			var vals []string
			for _, r := range g.rows[:min(len(g.rows), 4)] {
				vals = append(vals, number(lat.val[r]))
			}
			text += fmt.Sprintf(", latency %s, max/min %s", strings.Join(vals, " "), number(g.ratio))
		}
		out.rows = append(out.rows, text)
	}
	out.fix = "put a dedupe stage before this gate, or find out why the cases were collected twice"
	return out
}

func spread(s series, rows []int) float64 {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, r := range rows {
		lo, hi = min(lo, s.val[r]), max(hi, s.val[r])
	}
	if !(lo > 0) || math.IsInf(hi, 0) {
		return math.NaN()
	}
	return hi / lo
}

// coverage: planned cases, or rows of a reference, that are answered.
type coverage struct {
	Min float64  `hcl:"min,optional" json:"min"`
	By  []string `hcl:"by,optional" json:"by,omitempty"`
	// ByKey counts the keys of the table instead of the cases: one of several
	// kernels for a shape is enough.
	ByKey     bool      `hcl:"by_key,optional" json:"by_key,omitempty"`
	Excuse    []string  `hcl:"excuse,optional" json:"excuse,omitempty"`
	Reference cty.Value `hcl:"reference,optional" json:"-"`

	ref *stage.Ref
}

func (c *coverage) refersTo() *stage.Ref { return c.ref }

func (c *coverage) title() string {
	if c.ref != nil {
		return "coverage of " + c.ref.Address
	}
	return "coverage"
}

func (c *coverage) limits() any { return *c }

func (c *coverage) prepare(r hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if !(c.Min >= 0 && c.Min <= 1) {
		diags = append(diags, problem("Wrong share", fmt.Sprintf("min is %s; a share lies between 0 and 1.", number(c.Min)), r))
	}
	ref, d := optionalRef(c.Reference, "reference", r)
	c.ref = ref
	for _, e := range c.Excuse {
		if !slices.Contains(ledgerClasses, e) {
			d = append(d, problem("Unknown failure class", fmt.Sprintf("excuse names %q.%s The classes are: %s.", e, didYouMean(e, ledgerClasses), strings.Join(ledgerClasses, ", ")), r))
		}
	}
	return append(diags, d...)
}

// optionalRef reads an attribute that may refer to a stage.
func optionalRef(v cty.Value, name string, r hcl.Range) (*stage.Ref, hcl.Diagnostics) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}
	ref, err := stage.RefOf(v)
	if err != nil {
		return nil, hcl.Diagnostics{problem("Wrong "+name, err.Error(), r)}
	}
	return ref, nil
}

var ledgerClasses = []string{
	"collector_bug", "unsupported_config", "framework_bug", "resource_issue", "transient", "timeout",
	"tripped", "ramp", "not_selected", "interrupted",
}

func (c *coverage) run(s *subject) verdict {
	want, key, whose := s.ds.Planned, []string(nil), "planned cases"
	if c.ref != nil {
		if s.reference == nil || s.reference.Table == nil {
			return failed(fmt.Sprintf("%s has no table to compare with", c.ref.Address))
		}
		want, key, whose = s.reference.Table, commonKey(s), "rows of "+c.ref.Address
		if len(key) == 0 {
			return failed(fmt.Sprintf("%s and the data have no key columns in common", c.ref.Address))
		}
	} else if want == nil {
		return skipped("this data came from files, so no cases were planned; give coverage a reference to compare with")
	} else if column(want, "case_id") != nil && (s.rec == nil || column(s.rec, "case_id") != nil) {
		key = []string{"case_id"}
	} else {
		key = s.ds.Info.Params
	}
	if c.ByKey && c.ref == nil {
		whose = "planned keys"
		key = slices.DeleteFunc(slices.Clone(s.key()), func(k string) bool { return column(want, k) == nil })
		if len(key) == 0 {
			return failed("by_key: the planned cases have none of the columns of the table's key")
		}
	}
	for _, b := range c.By {
		if column(want, b) == nil {
			return failed(fmt.Sprintf("\"by\" names the column %q, which the %s lack.%s", b, whose, didYouMean(b, columnNames(want))))
		}
	}
	// A repeated row of a reference is one thing to cover.
	ix := rowkey.New(key, rowkey.Options{})
	wantIDs, err := ix.Number(want)
	if err != nil {
		return failed(err.Error())
	}
	n := ix.Len()
	answered := make([]bool, n)
	if s.rec != nil {
		ids, err := ix.Number(s.rec)
		if err != nil {
			return failed(err.Error())
		}
		for _, id := range ids {
			if int(id) < n {
				answered[id] = true
			}
		}
	}
	only, err := matching(want, s.on)
	if err != nil {
		return failed(err.Error())
	}
	return c.count(s, want, wantIDs, answered, only, key, whose)
}

func (c *coverage) count(s *subject, want arrow.Record, ids []uint32, answered, only []bool, key []string, whose string) verdict {
	groups := rowkey.New(c.By, rowkey.Options{})
	groupIDs, err := groups.Number(want)
	if err != nil {
		return failed(err.Error())
	}
	type tally struct{ have, total, first int }
	tallies := make([]tally, groups.Len())
	all := tally{}
	ledger := ledgerByCase(s.ds)
	excused := 0
	seen := make([]bool, len(answered))
	missing := map[string]int{}
	var missingRows []int
	for i, id := range ids {
		if !only[i] || seen[id] {
			continue
		}
		seen[id] = true
		entry := ledger.entry(want, i)
		if !answered[id] && slices.Contains(c.Excuse, entry.class) {
			excused++
			continue
		}
		t := &tallies[groupIDs[i]]
		if t.total == 0 {
			t.first = i
		}
		t.total++
		all.total++
		if answered[id] {
			t.have++
			all.have++
			continue
		}
		missing[cmp.Or(entry.class, "no row")]++
		missingRows = append(missingRows, i)
	}
	if all.total == 0 && excused == 0 {
		return failed("there are no " + whose + " to cover")
	}
	worst, share := all, ratioOf(all.have, all.total)
	for _, t := range tallies {
		if t.total > 0 && ratioOf(t.have, t.total) < ratioOf(worst.have, worst.total) {
			worst = t
		}
	}
	got := ratioOf(worst.have, worst.total)
	out := verdict{ok: got >= c.Min, value: percent(share), limit: "at least " + percent(c.Min)}
	out.message = fmt.Sprintf("%d of %d %s have a row (%s)", all.have, all.total, whose, percent(share))
	if excused > 0 {
		out.message += fmt.Sprintf("; %d excused (%s)", excused, strings.Join(c.Excuse, ", "))
	}
	if len(c.By) > 0 && worst.total > 0 {
		out.value = percent(got)
		out.message += fmt.Sprintf("; least: %s with %d of %d", rowkey.Describe(want, worst.first, c.By), worst.have, worst.total)
	}
	if len(missingRows) > 0 {
		out.message += "; missing: " + countsText(missing)
	}
	show := key
	if len(s.ds.Info.Params) > 0 && c.ref == nil {
		show = s.ds.Info.Params
	}
	for _, r := range missingRows[:min(len(missingRows), maxRows)] {
		text := rowkey.Describe(want, r, show)
		if e := ledger.entry(want, r); e.class != "" {
			text += fmt.Sprintf(" (%s: %s)", e.class, e.message)
		}
		out.rows = append(out.rows, text)
	}
	if !out.ok {
		out.fix = "see the ledger of the collect stage; apply -retry failed tries the failed cases again"
	}
	return out
}

// commonKey is the key of the judged data as far as the reference has it.
func commonKey(s *subject) []string {
	return slices.DeleteFunc(slices.Clone(s.key()), func(c string) bool {
		return column(s.reference.Table, c) == nil || column(s.rec, c) == nil
	})
}

func ratioOf(have, total int) float64 {
	if total == 0 {
		return 1
	}
	return float64(have) / float64(total)
}

func countsText(m map[string]int) string {
	names := make([]string, 0, len(m))
	for k := range m {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b)) })
	for i, k := range names {
		names[i] = fmt.Sprintf("%d %s", m[k], k)
	}
	return strings.Join(names, ", ")
}
