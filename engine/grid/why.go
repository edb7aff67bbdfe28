package grid

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Reasons explain what happens to the combinations that match the given values.
type Reasons struct {
	// Kept is true if at least one matching combination is a case, or, in Point, a point of that
	// case.
	Kept bool `json:"kept"`
	// Matching is the number of combinations with these values. Passing is the number of those that
	// no filter drops.
	Matching int64 `json:"matching"`
	Passing  int64 `json:"passing"`
	// IDs are the IDs of the matching cases in grid order (for points see Cases.PointIDs), at most
	// MaxIDs. Cases is the total number. A kept verdict has at least one ID.
	IDs   []string `json:"ids,omitempty"`
	Cases int      `json:"cases"`
	// Drops has one entry per filter that drops matching combinations, the one that drops most first.
	// Several filters may drop the same combination, so their counts overlap.
	Drops []Drop `json:"drops,omitempty"`
	// Duplicates are passing combinations that were replaced by another case.
	Duplicates []Duplicate `json:"duplicates,omitempty"`
	// Problems explain why nothing matches, for example a misspelt name or a value that is not on
	// its axis.
	Problems []string `json:"problems,omitempty"`
	// Point is the verdict on the names of the sweep for the first matching case. It is nil if no
	// such names were given.
	Point *Reasons `json:"point,omitempty"`
}

// Overlap reports whether several filters drop the same combination.
func (v *Reasons) Overlap() bool {
	sum := v.Passing
	for _, d := range v.Drops {
		sum += d.Dropped
	}
	return sum > v.Matching
}

// MaxIDs limits Reasons.IDs and Reasons.Duplicates.
const MaxIDs = 20

// Drop is one filter that drops matching combinations.
type Drop struct {
	Filter  string `json:"filter"`
	Reason  string `json:"reason"`
	Dropped int64  `json:"dropped"`
	// Values are the names that the filter's expression uses, with their values in the first
	// combination that it drops: name = value.
	Values []string `json:"values,omitempty"`
	// Place is the position of the filter as file:line.
	Place string `json:"place"`
	// In is the address of the part that contains the filter. IncludedAt are the positions at which
	// the part is included, innermost first. Both are empty for a filter in the grid itself.
	In         string   `json:"part,omitempty"`
	IncludedAt []string `json:"included_at,omitempty"`
}

// Duplicate is a combination that was replaced by another one with the same key.
type Duplicate struct {
	CaseID string   `json:"case_id"`          // ID of the case that is kept
	Key    []string `json:"key"`              // names with equal values, from distinct's by
	Differ []string `json:"differ,omitempty"` // columns in which the kept case differs: name = value
}

// whyLimit bounds the combinations of a set that Why examines one by one.
const whyLimit = 5_000_000

// Why explains what happens to the combinations in which names have the given values. Names are
// columns, axes, fields of rows, derived values and, for the points inside a case, names of the
// sweep. Any of them may be omitted. Values are converted to the type of their name. The verdict is
// nil if and only if the diagnostics contain errors, which are those of Expand.
func Why(spec *Spec, given map[string]cty.Value) (*Reasons, hcl.Diagnostics) {
	inCase, inPoint := map[string]cty.Value{}, map[string]cty.Value{}
	for name, val := range given {
		if spec.Sweep != nil && spec.names[name] == nil && spec.Sweep.names[name] != nil {
			inPoint[name] = val
		} else {
			inCase[name] = val
		}
	}

	w := newWalker(newProgram(spec, nil), defaultLimits)
	v, diags := w.why(inCase, (*Cases).ID)
	if v == nil || !v.Kept || len(inPoint) == 0 {
		return v, diags
	}

	cases, diags := Expand(spec)
	if diags.HasErrors() {
		return nil, diags
	}

	ids := cases.PointIDs(w.firstCase)
	for i, variable := range w.p.stored {
		variable.cur = w.cols[i][w.stay[w.firstCase]]
	}

	sw := newWalker(newProgram(spec.Sweep, w.p.sp), defaultLimits)
	point, diags := sw.why(inPoint, func(_ *Cases, j int) string { return ids[j] })
	if diags.HasErrors() {
		return nil, diags
	}

	v.Point = point
	return v, diags
}

// why expands the program and then walks the matching combinations. id returns the ID of a case or
// point by its index.
func (w *walker) why(given map[string]cty.Value, id func(c *Cases, at int) string) (*Reasons, hcl.Diagnostics) {
	w.run()
	if w.diags.HasErrors() {
		return nil, w.p.spec.located(w.diags)
	}

	cases := newCases(w.p.spec)
	if diags := cases.fill(w); diags.HasErrors() {
		return nil, w.p.spec.located(diags)
	}

	out := &Reasons{}
	given, out.Problems = w.p.spec.convertGiven(given)
	if len(out.Problems) > 0 {
		return out, nil
	}

	x := &explainer{walker: w, id: func(at int) string { return id(cases, at) }, given: map[*variable]cty.Value{},
		out: out, drops: map[*filterProg]int{}, first: w.kept}
	for name, val := range given {
		x.given[w.p.sp.vars[name]] = val
	}

	// whyLimit bounds the combinations.
	w.limits = limits{cases: math.MaxInt, visits: math.MaxInt64, evaluations: math.MaxInt64}
	w.each = x.combination
	for _, sp := range w.p.sets {
		x.set(sp)
		if w.diags.HasErrors() {
			return nil, w.p.spec.located(w.diags)
		}
	}

	if out.Matching == 0 && len(out.Problems) == 0 {
		out.Problems = w.p.spec.offAxis(given)
	}

	// The filter that drops most combinations decides, so it comes first.
	slices.SortStableFunc(out.Drops, func(a, b Drop) int { return cmp.Compare(b.Dropped, a.Dropped) })
	x.duplicates(cases)
	return out, nil
}

// explainer walks the combinations with the given values.
type explainer struct {
	*walker
	id    func(at int) string
	given map[*variable]cty.Value
	out   *Reasons
	drops map[*filterProg]int // index in out.Drops
	first int                 // index in cols of the first passing combination
}

// set walks one set with its loops narrowed to the given values.
func (x *explainer) set(sp *setProg) {
	for v := range x.given {
		if _, bound := sp.at[v]; !bound {
			return
		}
	}
	narrow := *sp
	narrow.levels = append([]level(nil), sp.levels...)

	declared := int64(1)
	for i := range narrow.levels {
		l := &narrow.levels[i]
		l.steps, l.open = nil, true // no filter drops a combination before it is explained
		x.narrow(l)
		declared = mulSat(declared, int64(l.size))
	}

	if declared > whyLimit {
		x.out.Problems = append(x.out.Problems, fmt.Sprintf("%s combinations of %s match; name more values.",
			count(declared), sp.set.label()))
		return
	}

	x.walker.set = &narrow
	x.begin(&narrow)
	x.enter(0)
}

// narrow reduces a loop to the entries with the given values.
func (x *explainer) narrow(l *level) {
	var keep []int32
	for i := range l.size {
		ok := true
		for f, v := range l.vars {
			if want, asked := x.given[v]; asked {
				ok = ok && canonical(v.vals[l.ids[f][i]]) == canonical(want)
			}
		}

		if ok {
			keep = append(keep, int32(i))
		}
	}

	ids := make([][]int32, len(l.ids))
	for f := range ids {
		ids[f] = pick(l.ids[f], keep)
	}

	l.ids, l.size = ids, len(keep)
}

// matches reports whether the current combination has the given values. Only derived ones may differ.
func (x *explainer) matches() bool {
	for v, want := range x.given {
		x.derive([]*variable{v})
		if v.cur < 0 || canonical(v.vals[v.cur]) != canonical(want) {
			return false
		}
	}
	return true
}

// combination checks one combination against every filter and records the result.
func (x *explainer) combination() {
	if !x.matches() {
		return
	}

	x.out.Matching++
	passes := true
	for _, f := range x.walker.set.set.Filters {
		fp := x.p.filters[f.order]
		if !x.drop(fp) {
			continue
		}

		passes = false
		at, seen := x.drops[fp]
		if !seen {
			at = len(x.out.Drops)
			x.drops[fp] = at
			drop := Drop{Filter: f.Label(), Reason: f.Reason, Values: x.values(fp)}
			drop.Place, drop.In, drop.IncludedAt = f.Place()
			x.out.Drops = append(x.out.Drops, drop)
		}

		x.out.Drops[at].Dropped++
	}

	if passes {
		x.out.Passing++
		x.keep()
	}
}

// drop reports whether a filter drops the current combination. It gives the same result as the
// expansion: a condition that fails on the complete combination may have been false before the
// failing name was bound.
func (x *explainer) drop(f *filterProg) bool {
	failed := false
	for _, c := range f.conjs {
		x.derive(c.prog.vars)
		switch x.judge(c.prog) {
		case isFalse:
			return true
		case isTrue:
		default:
			failed = true
		}
	}

	if !failed {
		return false
	}

	switch x.judge(f.whole) {
	case isFalse:
		return true
	case isTrue:
		return false
	}

	return slices.ContainsFunc(f.conjs, func(c *conj) bool { return x.known(c.prog) == isFalse })
}

// known returns the first definite answer of a condition while its names are bound loop by loop, or
// isError.
func (x *explainer) known(p *prog) answer {
	out := isError
	x.eachStage(p, func(int) bool {
		v := x.judge(p)
		if v == isTrue || v == isFalse {
			out = v
			return true
		}
		return false
	})

	return out
}

// eachStage binds the names of p loop by loop and calls ask at the levels at which the memoised
// strategy evaluates p, until ask returns true.
func (w *walker) eachStage(p *prog, ask func(level int) bool) {
	saved := make([]int32, len(p.vars))
	for i, v := range p.vars {
		saved[i] = v.cur
	}

	last := w.set.levelOf(p.vars)
	for l := 0; l <= last; l++ {
		if l > 0 && l < last && !p.logical {
			continue
		}

		for i, v := range p.vars {
			v.cur = saved[i]
			if w.set.at[v] > l {
				v.cur = idUnbound
			}
		}

		if ask(l) {
			break
		}
	}

	for i, v := range p.vars {
		v.cur = saved[i]
	}
}

// values formats the names that a filter uses with their current values.
func (x *explainer) values(f *filterProg) []string {
	var out []string
	for _, v := range f.whole.vars {
		x.derive([]*variable{v})
		if v.cur >= 0 {
			out = append(out, v.info.name+" = "+display(v.vals[v.cur]))
		}
	}

	return out
}

// duplicates determines which passing combinations are cases, and which case replaces each of the
// others.
func (x *explainer) duplicates(cases *Cases) {
	w := x.walker
	if w.kept == x.first {
		return
	}

	spec := w.p.spec
	by := spec.Columns
	if spec.Distinct != nil {
		by = spec.Distinct.By
	}

	whole, key := newKeyer(w, spec.Columns), newKeyer(w, by)
	byWhole, byKey := map[string]int{}, map[string]int{}
	for i, at := range w.stay {
		byWhole[whole.of(at)] = i
		byKey[key.of(at)] = i
	}

	found := map[int]bool{}
	for i := int32(x.first); i < int32(w.kept); i++ {
		if at, ok := byWhole[whole.of(i)]; ok {
			if !found[at] {
				if len(found) == 0 {
					w.firstCase = at
				}
				found[at] = true
				if len(x.out.IDs) < MaxIDs {
					x.out.IDs = append(x.out.IDs, x.id(at))
				}
			}
			continue
		}

		if at, ok := byKey[key.of(i)]; ok && len(x.out.Duplicates) < MaxIDs {
			x.out.Duplicates = append(x.out.Duplicates, x.duplicate(cases, by, at, i))
		}
	}

	x.out.Cases, x.out.Kept = len(found), len(found) > 0
}

func (x *explainer) duplicate(cases *Cases, by []string, at int, i int32) Duplicate {
	d := Duplicate{Key: by, CaseID: x.id(at)}
	for col, name := range x.p.spec.Columns {
		v, ids := x.columnOf(name)
		if mine, theirs := v.vals[ids[i]], cases.Value(at, col); canonical(mine) != canonical(theirs) {
			d.Differ = append(d.Differ, name+" = "+display(theirs))
		}
	}

	return d
}
