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
	"aicplan/sink/phrase"
	"aicplan/sink/rowkey"
	"aicplan/sink/tree"
)

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

func (c *coverage) prepare(r hcl.Range) hcl.Diagnostics {
	var diags hcl.Diagnostics
	if !(c.Min >= 0 && c.Min <= 1) {
		diags = append(diags, problem("Wrong share", fmt.Sprintf("min is %s; a share lies between 0 and 1.", number(c.Min)), r))
	}
	ref, d := optionalRef(c.Reference, "reference", r)
	c.ref = ref
	for _, e := range c.Excuse {
		if !slices.Contains(ledgerClasses, e) {
			d = append(d, problem("Unknown failure class", fmt.Sprintf("excuse names %q.%s The classes are: %s.", e, phrase.DidYouMean(e, ledgerClasses), strings.Join(ledgerClasses, ", ")), r))
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

func (c *coverage) run(s *subject) finding {
	want, key, whose, err := c.wanted(s)
	if err != nil {
		return failed(err.Error())
	}
	if want == nil {
		return s.cannot("this data came from files, so no cases were planned; give coverage a reference to compare with")
	}
	for _, b := range c.By {
		if column(want, b) == nil {
			return failed(fmt.Sprintf("\"by\" names the column %q, which the %s lack.%s", b, whose, phrase.DidYouMean(b, columnNames(want))))
		}
	}
	// A repeated row of a reference is one thing to cover.
	ix := rowkey.New(key, rowkey.Options{Missing: tree.Defaults})
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

// wanted is what has to be covered and the columns by which its rows are found
// in the data; want is nil when nothing was planned.
func (c *coverage) wanted(s *subject) (want arrow.Record, key []string, whose string, err error) {
	want = s.ds.Planned
	switch {
	case c.ref != nil:
		if s.reference == nil || s.reference.Table == nil {
			return nil, nil, "", fmt.Errorf("%s has no table to compare with", c.ref.Address)
		}
		want = s.reference.Table
		key, err = commonKey(s, c.ref.Address)
		return want, key, "rows of " + c.ref.Address, err
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

func (c *coverage) count(s *subject, want arrow.Record, ids []uint32, answered []bool, unfit map[int]bool, only []bool, key []string, whose string) finding {
	groups := rowkey.New(c.By, rowkey.Options{})
	groupIDs, err := groups.Number(want)
	if err != nil {
		return failed(err.Error())
	}
	type tally struct{ have, total, first int }
	tallies := make([]tally, groups.Len())
	all := tally{}
	ledger := ledgerByCase(s.ds)
	excused, barred := 0, 0
	seen := make([]bool, len(answered))
	missing := map[string]int{}
	var missingRows []int
	for i, id := range ids {
		if !only[i] || seen[id] {
			continue
		}
		seen[id] = true
		entry := ledger.entry(want, i)
		if !answered[id] && entry.status == "skipped" && entry.class == "unsupported_config" {
			barred++ // the plan says that there is no kernel for it
			continue
		}
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
		why := "no row"
		if unfit[int(id)] {
			why = "no usable " + s.metric()
		}
		missing[cmp.Or(entry.class, why)]++
		missingRows = append(missingRows, i)
	}
	if all.total == 0 && excused+barred == 0 {
		return failed("there are no " + whose + " to cover")
	}
	worst, share := tally{}, ratioOf(all.have, all.total)
	for _, t := range tallies {
		if t.total > 0 && (worst.total == 0 || ratioOf(t.have, t.total) < ratioOf(worst.have, worst.total)) {
			worst = t
		}
	}
	got := ratioOf(worst.have, worst.total)
	out := finding{ok: got >= c.Min, value: percent(share), limit: "at least " + percent(c.Min), total: all.total, definite: true}
	out.message = fmt.Sprintf("%d of %d %s have a row (%s)", all.have, all.total, whose, percent(share))
	if barred > 0 {
		out.message += fmt.Sprintf("; %d more have no kernel on this device (unsupported)", barred)
	}
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

// commonKey is the key by which rows of the data are found in the reference.
// Both need all of it: without one of its columns rows that differ look alike.
func commonKey(s *subject, whose string) ([]string, error) {
	key := s.fullKey()
	if err := s.lackingKey(s.rec, "the data", key); err != nil {
		return nil, err
	}
	if err := s.lackingKey(s.reference.Table, whose, key); err != nil {
		return nil, err
	}
	// What the reference tells its rows apart by counts too.
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
