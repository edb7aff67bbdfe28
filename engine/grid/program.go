package grid

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// answer is the result of a condition for a full or partial combination.
type answer uint8

const (
	isTrue answer = iota + 1
	isFalse
	isOpen  // needs names that are not bound yet
	isError // failed; the whole filter decides, see resolve
)

// conj is one conjunct of a filter.
type conj struct {
	prog *prog
	// decided is the latest answer on the current path through the loops, level the loop at which
	// it was given.
	decided answer
	level   int
}

// filterProg is a filter prepared for evaluation. All sets share it.
type filterProg struct {
	src     *Filter
	conjs   []*conj
	whole   *prog
	errors  bool // some conjunct failed at least once
	broken  bool // an error was reported, so the filter is skipped
	dropped int64
	samples []string
}

// deriveProg computes a derived name in one set.
type deriveProg struct {
	prog    *prog
	known   *memo[int32] // ids, or idError
	failing bool         // an error was reported
}

// step is one evaluation at one level of the loops.
type step struct {
	filter *filterProg
	conj   *conj // nil: evaluate the whole filter if some of its conjuncts failed
	vars   []*variable
	final  bool // all names of the conjunct are bound
	once   bool // never repeats with the same values, so answers are not stored
}

// level is one loop of a set. Level 0 has no loop and runs once before the first one.
type level struct {
	dim     *Dim
	vars    []*variable // of the dim's fields
	ids     [][]int32   // by field, then entry
	size    int
	derived []*variable // derived names that are complete with this loop
	steps   []step
	inner   int64 // number of combinations of the loops inside this one
	open    bool  // a loop further in has steps
}

// setProg is a set prepared for evaluation.
type setProg struct {
	set     *Set
	levels  []level
	at      map[*variable]int // level that binds the variable
	derives map[*variable]*deriveProg
}

// program is a spec compiled for one expansion.
type program struct {
	spec    *Spec
	sp      *space
	sets    []*setProg
	filters []*filterProg
	stored  []*variable // variables stored for every kept combination
}

// newProgram compiles a spec. outer contains the names of the case that a sweep belongs to, and is
// nil for a grid.
func newProgram(spec *Spec, outer *space) *program {
	p := &program{spec: spec, sp: newSpace(spec, outer)}
	for _, f := range spec.filters {
		fp := &filterProg{src: f, whole: p.sp.compile(f.keep, f.keep.src)}
		for _, part := range conjuncts(f.keep.src) {
			fp.conjs = append(fp.conjs, &conj{prog: p.sp.compile(f.keep, part)})
		}
		p.filters = append(p.filters, fp)
	}

	for _, name := range spec.storedNames() {
		p.stored = append(p.stored, p.sp.vars[name])
	}

	for _, set := range spec.Sets {
		p.sets = append(p.sets, p.newSet(set))
	}

	return p
}

// storedNames returns the names whose values are stored for every kept combination: the columns,
// the keys of distinct, and the names that the sweep's expressions use.
func (s *Spec) storedNames() []string {
	out := slices.Clone(s.Columns)
	if s.Distinct != nil {
		out = union(out, s.Distinct.By...)
	}
	for _, of := range s.ranked() {
		out = append(out, of.Name)
	}

	if s.Sweep != nil {
		out = union(out, s.Sweep.outerNames()...)
	}
	return out
}

// ranked returns the value that distinct compares, if there is one. It is derived like other values.
func (s *Spec) ranked() []*Derive {
	if s.Distinct == nil || s.Distinct.Of == nil {
		return nil
	}
	return []*Derive{s.Distinct.Of}
}

// outerNames returns the names of the surrounding case that a sweep uses.
func (s *Spec) outerNames() []string {
	var out []string
	for _, set := range s.Sets {
		for _, u := range s.uses(set) {
			for _, name := range u.expr.names {
				if s.names[name].outer {
					out = union(out, name)
				}
			}
		}
	}

	return out
}

func (p *program) newSet(set *Set) *setProg {
	sp := &setProg{set: set, at: map[*variable]int{}, derives: map[*variable]*deriveProg{}}
	sp.levels = make([]level, len(set.Dims)+1)
	sp.levels[0].size = 1

	for name, info := range p.spec.names {
		if info.outer {
			sp.at[p.sp.vars[name]] = 0
		}
	}

	for i, dim := range set.Dims {
		l := &sp.levels[i+1]
		l.dim, l.size = dim, dim.Size()
		for f, name := range dim.Fields {
			v := p.sp.vars[name]
			ids := make([]int32, l.size)
			for e, val := range dim.Values[f] {
				ids[e] = p.sp.intern(v, val)
			}

			l.vars, l.ids = append(l.vars, v), append(l.ids, ids)
			sp.at[v] = i + 1
		}
	}

	inner := int64(1)
	for i := len(sp.levels) - 1; i >= 0; i-- {
		sp.levels[i].inner = inner
		inner = mulSat(inner, int64(sp.levels[i].size))
	}

	for _, v := range slices.Concat(set.Derives, p.spec.ranked()) {
		target := p.sp.vars[v.Name]

		dp := &deriveProg{prog: p.sp.compile(v.expr, v.expr.src)}
		dp.known = newMemo[int32](dp.prog.vars)
		at := sp.levelOf(dp.prog.vars)
		sp.at[target], sp.derives[target] = at, dp
		sp.levels[at].derived = append(sp.levels[at].derived, target)
	}

	for _, f := range set.Filters {
		p.addSteps(sp, p.filters[f.order])
	}

	sp.markOnce()

	open := false
	for i := len(sp.levels) - 1; i >= 0; i-- {
		sp.levels[i].open = open
		open = open || len(sp.levels[i].steps) > 0
	}

	return sp
}

// addSteps adds the steps of a filter. Every conjunct is evaluated once all its names are bound. A
// conjunct with logical operators is also evaluated whenever another of its names becomes bound,
// because the result may be known early.
func (p *program) addSteps(sp *setProg, f *filterProg) {
	full := 0
	for _, c := range f.conjs {
		last := sp.levelOf(c.prog.vars)
		full = max(full, last)
		for l := 0; l <= last; l++ {
			binds := l == 0
			var bound []*variable
			for _, v := range c.prog.vars {
				binds = binds || sp.at[v] == l
				if sp.at[v] <= l {
					bound = append(bound, v)
				}
			}

			if l == last || (binds && (l == 0 || c.prog.logical)) {
				sp.levels[l].steps = append(sp.levels[l].steps, step{filter: f, conj: c, vars: bound, final: l == last})
			}
		}
	}

	sp.levels[full].steps = append(sp.levels[full].steps, step{filter: f, final: true})
}

// markOnce marks the steps that use a name of every loop down to their level. Each is evaluated
// once per combination, so a stored answer would never be used.
func (sp *setProg) markOnce() {
	for depth := 1; depth < len(sp.levels); depth++ {
		lv := &sp.levels[depth]
		for i := range lv.steps {
			s := &lv.steps[i]
			s.once = s.conj != nil
			for _, outer := range sp.levels[1 : depth+1] {
				s.once = s.once && !outer.dim.Rows && slices.Contains(s.vars, outer.vars[0])
			}
		}
	}
}

// levelOf returns the level at which all vars are bound.
func (sp *setProg) levelOf(vars []*variable) int {
	at := 0
	for _, v := range vars {
		at = max(at, sp.at[v])
	}
	return at
}

// declared returns the number of declared combinations.
func (p *program) declared() int64 {
	n := int64(0)
	for _, sp := range p.sets {
		n = addSat(n, sp.levels[0].inner)
	}
	return n
}

// sizes formats the loops of a set with their lengths, for messages.
func (sp *setProg) sizes() string {
	var out []string
	for _, l := range sp.levels[1:] {
		out = append(out, fmt.Sprintf("%s %d", l.dim.Name, l.size))
	}

	return strings.Join(out, " x ")
}

// mulSat multiplies two non-negative numbers and saturates at the largest int64.
func mulSat(a, b int64) int64 {
	if p, exact := mulExact(a, b); exact {
		return p
	}
	return math.MaxInt64
}

// addSat adds two non-negative numbers and saturates at the largest int64.
func addSat(a, b int64) int64 {
	if s, exact := addExact(a, b); exact {
		return s
	}
	return math.MaxInt64
}
