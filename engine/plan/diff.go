package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
)

// OpDiff compares the cases of one op between two plans.
type OpDiff struct {
	Op      string `json:"op"`
	Old     int    `json:"old"`
	New     int    `json:"new"`
	Added   int    `json:"added"`
	Removed int    `json:"removed"`
	// AddedHave are values that only added cases have, such as "gemm_dtype = nvfp4"; RemovedHave are those that
	// only removed cases have. Not all of these cases need to have them. A saved plan has no values of cases, so
	// RemovedHave is empty then.
	AddedHave   []string `json:"added_have,omitempty"`
	RemovedHave []string `json:"removed_have,omitempty"`
	// AddedWithin and RemovedWithin are values that all added or removed cases have, and that some of the
	// common cases have too. They are empty if AddedHave or RemovedHave is not.
	AddedWithin   []string `json:"added_within,omitempty"`
	RemovedWithin []string `json:"removed_within,omitempty"`
}

// CaseSets are the cases of a plan by op.
type CaseSets map[string]*CaseSet

// CaseSet are the cases of one op.
type CaseSet struct {
	ids    map[string]bool // shortened as in saved plans
	tables []arrow.Record  // the cases with their values; empty for saved plans
}

func (c CaseSets) op(name string) *CaseSet {
	if c[name] == nil {
		c[name] = &CaseSet{ids: map[string]bool{}}
	}
	return c[name]
}

// Sets collects the cases of p by op.
func Sets(p *Plan) CaseSets {
	out := CaseSets{}
	for _, s := range p.Stages {
		if s.Plan == nil || s.Plan.Data == nil || s.Plan.Data.Planned == nil {
			continue
		}

		set := out.op(s.Plan.Data.Info.Op)
		set.tables = append(set.tables, s.Plan.Data.Planned)
		for _, id := range CaseIDs(s.Plan.Data.Planned) {
			set.ids[id[:packedID]] = true
		}
	}

	return out
}

// Sets collects the case ids of a saved plan by op.
func (s *Saved) Sets() (CaseSets, error) {
	out := CaseSets{}
	for _, st := range s.Stages {
		if st.Op == "" {
			continue
		}

		ids, err := st.ids()
		if err != nil {
			return nil, err
		}
		maps.Copy(out.op(st.Op).ids, ids)
	}

	return out, nil
}

// DiffSets compares two plans op by op, in the order of their names. Ops without changes are part of the
// result.
func DiffSets(old, now CaseSets) []OpDiff {
	names := slices.Sorted(maps.Keys(old))
	names = slices.Compact(slices.Sorted(slices.Values(append(names, slices.Collect(maps.Keys(now))...))))

	var out []OpDiff
	for _, name := range names {
		a, b := old.op(name), now.op(name)
		d := OpDiff{Op: name, Old: len(a.ids), New: len(b.ids), Added: b.beyond(a), Removed: a.beyond(b)}
		d.AddedHave, d.AddedWithin = b.only(a)
		d.RemovedHave, d.RemovedWithin = a.only(b)
		out = append(out, d)
	}

	return out
}

// beyond counts the cases that other does not have.
func (c *CaseSet) beyond(other *CaseSet) int {
	n := 0
	for id := range c.ids {
		if !other.ids[id] {
			n++
		}
	}

	return n
}

// mostValues is the number of values of a column that only lists.
const mostValues = 4

// only returns the values that only cases have which other does not have, by column. If there are none, it returns the
// columns of which these cases have fewer values than the common ones. It returns nothing if there are no common
// cases.
func (c *CaseSet) only(other *CaseSet) (have, within []string) {
	own, common := map[string]map[string]bool{}, map[string]map[string]bool{}
	var names []string
	for _, rec := range c.tables {
		ids := CaseIDs(rec)
		for i, f := range rec.Schema().Fields() {
			if f.Name == "case_id" || f.Name == "status" {
				continue
			}

			if own[f.Name] == nil {
				own[f.Name], common[f.Name] = map[string]bool{}, map[string]bool{}
				names = append(names, f.Name)
			}

			col := rec.Column(i)
			for row, id := range ids {
				values := own[f.Name]
				if other.ids[id[:packedID]] {
					values = common[f.Name]
				}
				values[col.ValueStr(row)] = true
			}
		}
	}

	for _, name := range names {
		if len(common[name]) == 0 {
			continue
		}

		values := slices.Sorted(maps.Keys(own[name]))
		exclusive := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return common[name][v] })
		switch {
		case len(exclusive) > 0 && len(exclusive) <= mostValues:
			have = append(have, name+" = "+strings.Join(exclusive, ", "))
		case len(exclusive) == 0 && len(values) > 0 && len(values) <= mostValues && len(values) < len(common[name]):
			within = append(within, name+" = "+strings.Join(values, ", "))
		}
	}

	if len(have) > 0 {
		within = nil
	}
	return have, within
}
