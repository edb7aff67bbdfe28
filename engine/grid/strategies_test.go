package grid

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// The walks in this file evaluate the expressions as written in the plan, without memos. The tests
// compare the memoised walk with them.

// memoised is the walk of Expand.
var memoised = options{defaultLimits, (*walker).run}

// flat evaluates every filter for every combination.
var flat = options{defaultLimits, (*walker).runFlat}

// unknownPruned binds one loop after another with the others unknown, and stops if a filter is
// known to be false. It may detect this earlier than the other strategies (a null never equals a
// name that is never null) and then charges combinations to another filter of its waterfall.
var unknownPruned = options{defaultLimits, (*walker).runUnknown}

// hclOnly is the memoised walk without the fast evaluator.
var hclOnly = options{defaultLimits, func(w *walker) {
	w.p.hclOnly()
	w.run()
}}

// counting returns options that add the number of HCL evaluations to evals.
func counting(o options, evals *int64) options {
	walk := o.walk
	o.walk = func(w *walker) {
		before := w.evals
		walk(w)
		*evals += w.evals - before
	}
	return o
}

// plain evaluates the expression as written.
func (p *prog) plain() (cty.Value, hcl.Diagnostics) {
	for _, v := range p.vars {
		v.load()
		p.ctx.Variables[v.info.name] = v.slot
	}

	return p.source.Value(p.ctx)
}

// plainDerive computes the derived values of a level in dependency order.
func (w *walker) plainDerive(lv *level) {
	for _, v := range lv.derived {
		dp := w.set.derives[v]
		w.evals++
		val, diags := dp.prog.plain()
		if diags.HasErrors() || !usable(val) {
			v.cur = idError
		} else {
			v.cur = w.p.sp.intern(v, normalise(val, v.info.typ))
		}
	}
}

// runFlat evaluates every filter for every combination.
func (w *walker) runFlat() {
	for _, sp := range w.p.sets {
		w.set = sp
		w.begin(sp)
		w.flat(0)
		if w.stopped {
			return
		}
	}
}

func (w *walker) flat(l int) {
	lv := &w.set.levels[l]
	for i := 0; i < lv.size && !w.stopped; i++ {
		for f, v := range lv.vars {
			v.cur = lv.ids[f][i]
		}
		w.plainDerive(lv)
		if !w.visit() {
			return
		}

		if l < len(w.set.levels)-1 {
			w.flat(l + 1)
			continue
		}

		w.flatCase(lv)
	}
}

// flatCase decides one complete combination. One false filter drops it, even if another filter
// fails.
func (w *walker) flatCase(lv *level) {
	var dropping, failing []*filterProg
	for _, f := range w.filters() {
		v := w.wholeOrPart(f)
		if v != isFalse && v != isTrue {
			v = w.staged(f)
		}

		switch v {
		case isFalse:
			dropping = append(dropping, f)
		case isTrue:
		default:
			failing = append(failing, f)
		}
	}

	switch {
	case len(dropping) == 1:
		w.charge(dropping[0], lv)
	case len(dropping) > 1:
		w.charge(w.blame(dropping), lv)
	case len(failing) > 0:
		for _, f := range failing {
			w.filterFailed(f)
		}

	default:
		w.keep()
	}
}

// filters returns the filters of the set without reported errors, in source order.
func (w *walker) filters() []*filterProg {
	var out []*filterProg
	for _, f := range w.set.set.Filters {
		if fp := w.p.filters[f.order]; !fp.broken {
			out = append(out, fp)
		}
	}
	return out
}

// wholeOrPart evaluates a filter as a whole. If that fails, a false conjunct still decides.
func (w *walker) wholeOrPart(f *filterProg) answer {
	w.evals++
	v := judge(f.whole.plain())
	if v == isTrue || v == isFalse {
		return v
	}

	for _, c := range f.conjs {
		if judge(c.prog.plain()) == isFalse {
			return isFalse
		}
	}

	return v
}

// staged evaluates a filter that cannot be evaluated as a whole. It evaluates each conjunct with
// the loops bound one by one, so a conjunct may be decided before the failing name is bound. This
// defines the semantics that the memoised strategy implements.
func (w *walker) staged(f *filterProg) answer {
	out := isTrue
	for _, c := range f.conjs {
		v := isError
		w.eachStage(c.prog, func(int) bool {
			if got := judge(c.prog.plain()); got == isTrue || got == isFalse {
				v = got
				return true
			}
			return false
		})

		if v == isFalse {
			return isFalse
		}
		if v != isTrue {
			out = v
		}
	}

	return out
}

// blame returns the filter that a combination is charged to, see Waterfall.
func (w *walker) blame(dropping []*filterProg) *filterProg {
	best, at := dropping[0], len(w.set.levels)
	for _, f := range dropping {
		full := w.set.levelOf(f.whole.vars)
		for _, c := range f.conjs {
			w.eachStage(c.prog, func(l int) bool {
				v := judge(c.prog.plain())
				if v == isFalse {
					full = min(full, l)
				}
				return v == isTrue || v == isFalse
			})
		}

		if full < at {
			best, at = f, full
		}
	}

	return best
}

// runUnknown binds the loops one by one and evaluates whole filters with the other names unknown.
func (w *walker) runUnknown() {
	for _, sp := range w.p.sets {
		w.set = sp
		w.begin(sp)
		w.prune(0, w.filters())
		if w.stopped {
			return
		}
	}
}

// prune runs level l. open contains the filters that are not known to be true.
func (w *walker) prune(l int, open []*filterProg) {
	lv := &w.set.levels[l]
	last := l == len(w.set.levels)-1
	for i := 0; i < lv.size && !w.stopped; i++ {
		for f, v := range lv.vars {
			v.cur = lv.ids[f][i]
		}
		w.plainDerive(lv)
		if !w.visit() {
			return
		}

		still, dropped := w.pruneHere(lv, open)
		if dropped {
			continue
		}
		if !last {
			w.prune(l+1, still)
			continue
		}

		failed := false
		for _, f := range still {
			if w.staged(f) != isTrue {
				w.filterFailed(f)
				failed = true
			}
		}

		if !failed {
			w.keep()
		}
	}

	for _, v := range append(lv.vars[:len(lv.vars):len(lv.vars)], lv.derived...) {
		v.cur = idUnbound
	}
}

func (w *walker) pruneHere(lv *level, open []*filterProg) (still []*filterProg, dropped bool) {
	for _, f := range open {
		if f.broken {
			continue
		}

		switch w.wholeOrPart(f) {
		case isFalse:
			w.charge(f, lv)
			return nil, true
		case isTrue:
		default:
			still = append(still, f)
		}
	}
	return still, false
}

// hclOnly turns the fast path off.
func (p *program) hclOnly() {
	for _, f := range p.filters {
		f.whole.fast = nil
		for _, c := range f.conjs {
			c.prog.fast = nil
		}
	}

	for _, sp := range p.sets {
		for _, dp := range sp.derives {
			dp.prog.fast = nil
		}
	}
}
