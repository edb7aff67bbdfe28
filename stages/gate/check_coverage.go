package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// coverage checks the share of planned cases that have a row with a usable latency.
type coverage struct {
	// Min is the smallest accepted share, from 0 to 1.
	Min float64 `hcl:"min,optional" json:"min"`
	// ByKey counts keys of the perf table instead of cases: if several kernels exist for a shape, one is
	// enough.
	ByKey bool `hcl:"by_key,optional" json:"by_key,omitempty"`
	// Excuse lists failure classes of the ledger, such as "unsupported_config", whose cases do not count.
	Excuse []string `hcl:"excuse,optional" json:"excuse,omitempty"`
	// EveryValue requires a row for every value of every parameter that several cases share. False reports
	// such values without failing. The default is true if min is at least 0.9.
	EveryValue *bool `hcl:"every_value,optional" json:"every_value,omitempty"`
	// Reference is a table whose keys must have a row, instead of the planned cases.
	Reference cty.Value `hcl:"reference,optional" json:"-"`

	ref *stage.Ref
}

// mostOfAll is from which share on a coverage means that no value may lack rows.
const mostOfAll = 0.9

func (c *coverage) everyValue() bool {
	if c.EveryValue != nil {
		return *c.EveryValue
	}
	return c.Min >= mostOfAll
}

func (c *coverage) refersTo() *stage.Ref { return c.ref }

func (c *coverage) prepare(r hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if !(c.Min >= 0 && c.Min <= 1) {
		diags = append(diags, problem("Wrong share",
			fmt.Sprintf("min is %s; a share is between 0 and 1.", number(c.Min)), r))
	}

	if c.Reference != cty.NilVal && !c.Reference.IsNull() {
		ref, d := neededRef(c.Reference, r)
		c.ref, diags = ref, append(diags, d...)
	}

	for _, e := range c.Excuse {
		if !slices.Contains(ledgerClasses, e) {
			diags = append(diags, problem("Unknown failure class",
				fmt.Sprintf("excuse names %q.%s The classes are: %s.", e, textutil.DidYouMean(e, ledgerClasses),
					strings.Join(ledgerClasses, ", ")), r))
		}
	}

	return diags
}

var ledgerClasses = []string{
	"collector_bug", "unsupported_config", "framework_bug", "resource_issue", "transient", "timeout",
	"tripped", "ramp", "not_selected", "interrupted",
}

func (c *coverage) run(s *subject) finding {
	want, key, whose, err := c.wanted(s)
	if err != nil {
		return failed(err.Error())
	}

	if want == nil {
		return s.cannot("this data came from files, so no cases were planned")
	}

	ix := table.NewKeyIndex(key, table.KeyOptions{Missing: tree.Defaults})
	wantIDs, err := ix.Number(want)
	if err != nil {
		return failed(err.Error())
	}

	n := ix.Len()
	answered, unusableRows := make([]bool, n), map[int]bool{}
	if s.rec != nil {
		ids, err := ix.Number(s.rec)
		if err != nil {
			return failed(err.Error())
		}

		fit, err := usable(s.ds, s.rec)
		if err != nil {
			return failed(err.Error())
		}

		for i, id := range ids {
			switch {
			case int(id) >= n:
			case fit[i]:
				answered[id] = true
			default:
				unusableRows[int(id)] = true
			}
		}
	}

	only, err := matching(want, s.on)
	if err != nil {
		return failed(err.Error())
	}

	return c.count(s, want, wantIDs, answered, unusableRows, only, key, whose)
}

// wanted returns the rows that must be covered, and the columns that identify them in the data. want is
// nil if the dataset has no planned cases.
func (c *coverage) wanted(s *subject) (want arrow.Record, key []string, whose string, err error) {
	want = s.ds.Planned
	switch {
	case c.ref != nil:
		if s.reference == nil || s.reference.Table == nil {
			return nil, nil, "", fmt.Errorf("there are no rows of %s to cover", c.ref.Address)
		}
		key, err := commonKey(s, c.ref.Address)
		return s.reference.Table, key, "keys of " + c.ref.Address, err
	case want == nil:
		return nil, nil, "", nil
	case c.ByKey:
		key = slices.DeleteFunc(slices.Clone(s.key()), func(k string) bool { return column(want, k) == nil })
		if len(key) == 0 {
			return nil, nil, "", fmt.Errorf("by_key: the planned cases have none of the columns of the table's key")
		}
		return want, key, "planned keys", nil
	case column(want, "case_id") != nil && (s.rec == nil || column(s.rec, "case_id") != nil):
		return want, []string{"case_id"}, "planned cases", nil
	}

	return want, s.ds.Info.Params, "planned cases", nil
}

func (c *coverage) count(s *subject, want arrow.Record, ids []uint32, answered []bool, unfit map[int]bool,
	only []bool, key []string, whose string) finding {
	have, total := 0, 0
	ledger := ledgerByCase(s.ds)
	excused, barred, outside := 0, 0, 0
	seen := make([]bool, len(answered))
	missing := map[string]int{}

	show := key
	if len(s.ds.Info.Params) > 0 {
		show = s.ds.Info.Params
	}

	values := newValueCount(want, show)

	var missingRows []int
	for i, id := range ids {
		if !only[i] || seen[id] {
			continue
		}

		seen[id] = true
		entry := ledger.entry(want, i)
		if !answered[id] && entry.status == "skipped" && entry.class == "unsupported_config" {
			barred++ // the plan marks it as unsupported: no kernel exists
			continue
		}

		if !answered[id] && slices.Contains(c.Excuse, entry.class) {
			excused++
			continue
		}

		if !answered[id] && entry.class == "not_selected" && s.ds.Info.Partial != "" {
			outside++
			continue
		}

		total++
		values.add(i, answered[id])

		if answered[id] {
			have++
			continue
		}

		why := "no row"
		if unfit[int(id)] {
			why = "no usable " + s.metric()
		}

		missing[cmp.Or(entry.class, why)]++
		missingRows = append(missingRows, i)
	}

	if outside > 0 && have == total {
		return finding{skip: true, total: total, message: fmt.Sprintf(
			"not judged: this run took a sample (--%s); all %d of its cases have a row, %d were left out",
			s.ds.Info.Partial, have, outside)}
	}

	if total == 0 && excused+barred == 0 {
		return failed("there are no " + whose + " to cover")
	}

	share := ratioOf(have, total)
	out := finding{ok: share >= c.Min, value: percent(share), limit: "at least " + percent(c.Min), total: total,
		definite: true}
	out.message = fmt.Sprintf("%d of %d %s have a row (%s)", have, total, whose, percent(share))
	if barred > 0 {
		out.message += fmt.Sprintf("; %d more have no kernel on this device (unsupported)", barred)
	}

	if excused > 0 {
		out.message += fmt.Sprintf("; %d excused (%s)", excused, strings.Join(c.Excuse, ", "))
	}

	if len(missingRows) > 0 {
		out.message += "; missing: " + countsText(missing)
	}

	if lost := values.missing(); len(lost) > 0 {
		out.message += "; no row at all has " + strings.Join(lost[:min(len(lost), 5)], ", ")
		out.ok = out.ok && !c.everyValue()
	}

	for _, r := range missingRows[:min(len(missingRows), maxRows)] {
		text := table.Describe(want, r, show)
		if e := ledger.entry(want, r); e.class != "" {
			text += fmt.Sprintf(" (%s: %s)", e.class, e.message)
		}
		out.rows = append(out.rows, text)
	}

	if !out.ok {
		out.fix = "see the ledger of the collect stage; aicplan apply PLAN --retry failed tries the failed cases again"
	}

	return out
}

// valueCount counts the wanted and answered rows by value of each column.
type valueCount struct {
	rec     arrow.Record
	columns []string
	ids     [][]uint32
	wanted  [][]int
	have    [][]int
	first   [][]int
}

func newValueCount(rec arrow.Record, columns []string) *valueCount {
	v := &valueCount{rec: rec}
	for _, name := range columns {
		ix := table.NewKeyIndex([]string{name}, table.KeyOptions{})
		ids, err := ix.Number(rec)
		if err != nil || ix.Len() < 2 || column(rec, name) == nil {
			continue
		}
		v.columns, v.ids = append(v.columns, name), append(v.ids, ids)
		v.wanted, v.have = append(v.wanted, make([]int, ix.Len())), append(v.have, make([]int, ix.Len()))
		v.first = append(v.first, make([]int, ix.Len()))
	}
	return v
}

func (v *valueCount) add(row int, answered bool) {
	for c := range v.columns {
		id := v.ids[c][row]
		v.wanted[c][id]++
		v.first[c][id] = row
		if answered {
			v.have[c][id]++
		}
	}
}

// severalCases is from how many cases on a value counts as one that must be covered.
const severalCases = 3

// missing lists the values that several wanted rows have and no answered one.
func (v *valueCount) missing() []string {
	var out []string
	for c, name := range v.columns {
		for id, wanted := range v.wanted[c] {
			if wanted >= severalCases && v.have[c][id] == 0 {
				out = append(out, fmt.Sprintf("%s (%d cases)", table.Describe(v.rec, v.first[c][id], []string{name}), wanted))
			}
		}
	}
	return out
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
