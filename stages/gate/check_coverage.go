package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"

	"aicplan/engine/stage"
	"aicplan/sink/base/textutil"
	"aicplan/sink/table"
	"aicplan/sink/tree"
	"aicplan/stages/dedupe"
)

// coverage checks the share of planned cases that have a row with a usable latency. If min is at least 0.9, every value
// that several cases share must have a row too.
type coverage struct {
	// Min is the smallest accepted share, from 0 to 1.
	Min float64 `hcl:"min,optional" json:"min"`
	// ByKey counts keys of the perf table instead of cases: if several kernels exist for a shape, one is
	// enough.
	ByKey bool `hcl:"by_key,optional" json:"by_key,omitempty"`
	// Excuse lists failure classes of the ledger, such as "unsupported_config", whose cases do not count.
	Excuse []string `hcl:"excuse,optional" json:"excuse,omitempty"`
	// Reference is a table whose keys must have a row, instead of the planned cases.
	Reference cty.Value `hcl:"reference,optional" json:"-"`

	References
}

// Values that this many cases share must have a row if min is at least mostOfAll.
const (
	mostOfAll    = 0.9
	severalCases = 3
)

func (c *coverage) prepare(bad problems) {
	bad.share("min", c.Min)
	if stage.IsSet(c.Reference) {
		c.add(c.Reference, bad)
	}

	for _, e := range c.Excuse {
		if !slices.Contains(ledgerClasses, e) {
			bad("Unknown failure class", "excuse names %q.%s The classes are: %s.", e,
				textutil.DidYouMean(e, ledgerClasses), strings.Join(ledgerClasses, ", "))
		}
	}
}

var ledgerClasses = strings.Fields(`
	collector_bug unsupported_config framework_bug resource_issue transient timeout tripped ramp not_selected
	interrupted`)

func (c *coverage) run(s *subject) finding {
	want, key, whose, err := c.wanted(s)
	if err != nil {
		return failed(err.Error())
	}

	if want == nil {
		return s.cannot("this data came from files, so no cases were planned")
	}

	ix := tree.Index(key)
	ids := ix.Number(want)
	state := make([]rowState, ix.Len()) // of the keys that the data has
	if s.rec != nil {
		fit, err := s.usable()
		if err != nil {
			return failed(err.Error())
		}

		for i, id := range ix.Number(s.rec) {
			switch {
			case int(id) >= len(state):
			case fit[i]:
				state[id] = answered
			default:
				state[id] = max(state[id], unusable)
			}
		}
	}

	return c.count(s, want, ids, state, key, whose)
}

// rowState is what the data has for a wanted key.
type rowState int

const (
	noRow rowState = iota
	unusable
	answered
)

// wanted returns the rows that must be covered, and the columns that identify them in the data. want is
// nil if the dataset has no planned cases.
func (c *coverage) wanted(s *subject) (want arrow.Record, key []string, whose string, err error) {
	if len(c.refs) > 0 {
		address := c.refs[0].Address
		if s.reference() == nil {
			return nil, nil, "", fmt.Errorf("there are no rows of %s to cover", address)
		}
		key, err := commonKey(s, address)
		return s.reference(), key, "keys of " + address, err
	}

	want = s.ds.Planned
	switch {
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

func (c *coverage) count(s *subject, want arrow.Record, ids []uint32, state []rowState, key []string,
	whose string) finding {
	ledger, caseIDs := dedupe.LostCases(s.ds), column(want, "case_id")
	lostCase := func(row int) dedupe.Lost {
		if caseIDs == nil {
			return dedupe.Lost{}
		}
		return ledger[table.Text(caseIDs, row)]
	}

	show := key
	if len(s.ds.Info.Params) > 0 {
		show = s.ds.Info.Params
	}

	have, total, unsupported, excused, sampledOut := 0, 0, 0, 0, 0
	seen := make([]bool, len(state))
	reasons := map[string]int{}
	var counted, missing []int

	for i, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true

		of := lostCase(i)
		switch {
		case state[id] == answered:
			have++
		case of.Status == "skipped" && of.Class == "unsupported_config":
			unsupported++ // no kernel exists
			continue
		case slices.Contains(c.Excuse, of.Class):
			excused++
			continue
		case of.Class == "not_selected" && s.ds.Info.Partial != "":
			sampledOut++
			continue
		default:
			why := "no row"
			if state[id] == unusable {
				why = "no usable " + s.metric()
			}
			reasons[cmp.Or(of.Class, why)]++
			missing = append(missing, i)
		}

		total++
		counted = append(counted, i)
	}

	if sampledOut > 0 && have == total {
		return finding{skip: true, total: total, message: fmt.Sprintf(
			"not judged: this run took a sample (--%s); all %d of its cases have a row, %d were left out",
			s.ds.Info.Partial, have, sampledOut)}
	}

	if total+unsupported+excused == 0 {
		return failed("there are no " + whose + " to cover")
	}

	share := 1.0
	if total > 0 {
		share = float64(have) / float64(total)
	}

	out := finding{ok: share >= c.Min, value: percent(share), limit: "at least " + percent(c.Min), total: total,
		definite: true}
	out.add("%d of %d %s have a row (%s)", have, total, whose, percent(share))
	if unsupported > 0 {
		out.add("%d more have no kernel on this device (unsupported)", unsupported)
	}

	if excused > 0 {
		out.add("%d excused (%s)", excused, strings.Join(c.Excuse, ", "))
	}

	if len(missing) > 0 {
		out.add("missing: %s", countsText(reasons))
	}

	if values := lostValues(want, show, counted, missing); len(values) > 0 {
		out.add("no row at all has %s", strings.Join(values[:min(len(values), 5)], ", "))
		out.ok = out.ok && c.Min < mostOfAll
	}

	for _, r := range missing[:min(len(missing), maxRows)] {
		text := table.Describe(want, r, show)
		if of := lostCase(r); of.Class != "" {
			text += fmt.Sprintf(" (%s: %s)", of.Class, of.Message)
		}
		out.rows = append(out.rows, text)
	}

	if !out.ok {
		out.fix = "see the ledger of the collect stage; aicplan apply PLAN --retry failed tries the failed cases again"
	}

	return out
}

// lostValues lists the values of columns that several of the wanted rows have, all of which are missing.
func lostValues(want arrow.Record, columns []string, wanted, missing []int) []string {
	var out []string
	for _, name := range columns {
		ids, n := table.Number(want, name)
		if n < 2 {
			continue
		}

		all, lost, last := make([]int, n), make([]int, n), make([]int, n)
		for _, row := range wanted {
			all[ids[row]]++
			last[ids[row]] = row
		}
		for _, row := range missing {
			lost[ids[row]]++
		}

		for id, n := range all {
			if n >= severalCases && lost[id] == n {
				out = append(out, fmt.Sprintf("%s (%d cases)", table.Describe(want, last[id], []string{name}), n))
			}
		}
	}
	return out
}
