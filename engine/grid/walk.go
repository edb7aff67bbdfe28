package grid

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// walker iterates over the combinations of a program.
type walker struct {
	p         *program
	limits    limits
	set       *setProg
	cols      [][]int32 // values of the kept combinations, by stored variable
	kept      int
	stay      []int32 // indices of the kept combinations that become cases
	firstCase int     // index of the first case that why found
	each      func()  // called for each combination that no step drops
	diags     hcl.Diagnostics
	evals     int64 // number of HCL evaluations
	visits    int64 // number of loop steps
	stopped   bool  // by a limit; diags has the error
}

func newWalker(p *program, limits limits) *walker {
	w := &walker{p: p, limits: limits, cols: make([][]int32, len(p.stored))}
	w.each = func() {
		if !w.unsettled() {
			w.keep()
		}
	}
	return w
}

// run walks all sets with the memoised strategy.
func (w *walker) run() {
	for _, sp := range w.p.sets {
		w.set = sp
		w.begin(sp)
		w.enter(0)
		if w.stopped {
			return
		}
	}
}

// begin unbinds all names of a set.
func (w *walker) begin(sp *setProg) {
	for v := range sp.at {
		if info := w.p.spec.names[v.info.name]; info == nil || !info.outer {
			v.cur = idUnbound
		}
	}
}

// enter runs level l for each entry of its loop. The levels before it are bound.
func (w *walker) enter(l int) {
	lv := &w.set.levels[l]
	last := l == len(w.set.levels)-1
	for i := 0; i < lv.size; i++ {
		for f, v := range lv.vars {
			v.cur = lv.ids[f][i]
		}

		for _, v := range lv.derived {
			v.cur = idLazy
		}

		if !w.visit() {
			return
		}
		if !w.ask(l, lv) {
			continue
		}

		if !lv.open && !w.fits(lv.inner) {
			return
		}

		if last {
			w.each()
		} else {
			w.enter(l + 1)
		}

		if w.stopped {
			return
		}
	}

	for _, v := range lv.vars {
		v.cur = idUnbound
	}

	for _, v := range lv.derived {
		v.cur = idUnbound
	}
}

// ask runs the steps of a level. It returns false if the combinations inside are dropped.
func (w *walker) ask(l int, lv *level) bool {
	for i := range lv.steps {
		s := &lv.steps[i]
		if s.filter.broken {
			continue
		}

		if s.conj == nil {
			if !w.resolve(s, lv) {
				return false
			}
			continue
		}

		c := s.conj
		if c.decided == isTrue && c.level < l {
			continue
		}

		c.level = l
		c.decided = w.decide(s)
		switch c.decided {
		case isFalse:
			w.charge(s.filter, lv)
			return false
		case isError:
			s.filter.errors = true
		case isOpen:
			if s.final { // depends on a derived value that failed
				c.decided = isError
				s.filter.errors = true
			}
		}
	}
	return true
}

// decide evaluates a step. An error counts only once all names are bound.
func (w *walker) decide(s *step) answer {
	w.derive(s.vars)
	p := s.conj.prog
	var v answer
	if s.once {
		v = w.quickly(p, func() answer { return w.evaluate(p) })
	} else {
		v = w.judge(p)
	}

	if v == isError && !s.final {
		return isOpen
	}

	return v
}

// resolve decides a filter after some of its conjuncts failed on this combination, because the
// whole expression may guard them. If that fails as well, the combination is kept for now: another
// filter may still drop it. If no filter does, unsettled reports the failure.
func (w *walker) resolve(s *step, lv *level) bool {
	if s.filter.errors && w.settle(s.filter) == isFalse {
		w.charge(s.filter, lv)
		return false
	}
	return true
}

// settle evaluates a filter as a whole if one of its conjuncts failed. All its names must be bound.
func (w *walker) settle(f *filterProg) answer {
	failed := false
	for _, c := range f.conjs {
		failed = failed || c.decided == isError
	}

	if !failed {
		return isTrue
	}

	w.derive(f.whole.vars)
	return w.judge(f.whole)
}

// unsettled reports the filters that failed on the current combination. It is called if no filter
// dropped the combination.
func (w *walker) unsettled() bool {
	found := false
	for _, f := range w.set.set.Filters {
		fp := w.p.filters[f.order]
		if fp.errors && !fp.broken && w.settle(fp) != isTrue {
			w.filterFailed(fp)
			found = true
		}
	}

	return found
}

// keep stores the current combination as a candidate case.
func (w *walker) keep() {
	w.derive(w.p.stored)
	for _, v := range w.p.stored {
		if v.cur < 0 {
			w.deriveFailed(v)
			return
		}
	}

	if !w.fits(1) {
		return
	}

	for i, v := range w.p.stored {
		w.cols[i] = append(w.cols[i], v.cur)
	}

	w.kept++
}

// charge adds the combinations of the current loops to the dropped count of a filter.
func (w *walker) charge(f *filterProg, lv *level) {
	f.dropped = addSat(f.dropped, lv.inner)
	if len(f.samples) < 3 && lv.inner > 0 {
		if s := w.sample(f); s != "" {
			f.samples = append(f.samples, s)
		}
	}
}

// sample formats the current combination: the names that the filter uses, then the other bound
// columns.
func (w *walker) sample(f *filterProg) string {
	used := slices.Clone(f.whole.vars)
	for _, v := range w.p.stored {
		if slices.Contains(w.p.spec.Columns, v.info.name) {
			used = union(used, v)
		}
	}

	w.derive(used)
	var parts []string
	for _, v := range used {
		if v.cur >= 0 {
			parts = append(parts, v.info.name+"="+Text(v.vals[v.cur]))
		}
	}
	return strings.Join(parts, " ")
}

// Text formats a value as on a command line: strings without quotes.
func Text(v cty.Value) string {
	if !v.IsNull() && v.Type() == cty.String {
		return v.AsString()
	}
	return display(v)
}
