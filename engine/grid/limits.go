package grid

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Limits bound an expansion. Declared combinations are not limited: whole
// products fall away at once when an outer loop's filter drops them, so a
// large declaration may be cheap. What counts is what is kept and what has to
// be worked out.
type Limits struct {
	// Cases is the most combinations that may be kept, before duplicates are
	// dropped.
	Cases int
	// Evaluations is the most HCL evaluations; one takes 1 to 5 microseconds.
	Evaluations int64
	// Visits is the most loop steps; one takes some 30 nanoseconds.
	Visits int64
	// Points is the most sweep points over all cases.
	Points int64
}

// quickShare is how many evaluations of the fast path weigh as much as one of
// HCL.
const quickShare = 16

// DefaultLimits allow grids of four million cases, which take some seconds and
// some 300 MB.
func DefaultLimits() Limits {
	return Limits{Cases: 4_000_000, Evaluations: 4_000_000, Visits: 100_000_000, Points: 200_000_000}
}

// fits says whether n more combinations may be kept; if not, the walk stops
// with a diagnostic.
func (w *walker) fits(n int64) bool {
	if n <= int64(w.limits.Cases)-int64(w.kept) {
		return true
	}
	w.tooLarge(fmt.Sprintf("it keeps more than %d", w.limits.Cases))
	return false
}

// feasible refuses a set before its first loop begins when the loops up to the first
// filter that could drop something take more steps than the limit by themselves.
func (w *walker) feasible() bool {
	steps := int64(1)
	for i := 1; i < len(w.set.levels); i++ {
		lv := &w.set.levels[i]
		steps = mulSat(steps, int64(lv.size))
		if len(lv.steps) == 0 {
			continue
		}
		evals := steps
		if c := lv.steps[0].conj; c != nil && c.prog.fast != nil {
			evals = steps / quickShare
		}
		switch {
		case steps > w.limits.Visits:
			w.tooLarge(fmt.Sprintf("its loops take %s steps before a filter can drop anything, and %d are the limit", count(steps), w.limits.Visits))
		case evals > w.limits.Evaluations && lv.steps[0].askedOnce(w.set):
			w.tooLarge(fmt.Sprintf("its first filter has to be evaluated for %s combinations, and %d evaluations are the limit", count(steps), w.limits.Evaluations))
		default:
			return true
		}
		return false
	}
	return true
}

// askedOnce says whether a question comes with other values each time: it uses
// a name of every loop down to its own.
func (s *step) askedOnce(sp *setProg) bool {
	if s.once != 0 || s.conj == nil {
		return s.once > 0
	}
	s.once = -1
	for i := 1; i < len(sp.levels); i++ {
		lv := &sp.levels[i]
		used := lv.dim != nil && !lv.dim.Rows && len(lv.vars) == 1 && slices.Contains(s.vars, lv.vars[0])
		if !used {
			return false
		}
		for j := range lv.steps {
			if &lv.steps[j] == s {
				s.once = 1
				return true
			}
		}
	}
	return false
}

// mayGoOn checks the limits of work and whether the caller gave up.
func (w *walker) mayGoOn() bool {
	if err := w.ctx.Err(); err != nil {
		w.stop = err
		w.diags = append(w.diags, errorAt(w.p.spec.Range, "Expansion interrupted", fmt.Sprintf("The grid was not expanded: %v.", err)))
		return false
	}
	evals := w.evals + w.quick/quickShare
	switch {
	case evals > w.limits.Evaluations:
		w.tooLarge(fmt.Sprintf("its filters and derived values need more than %d evaluations", w.limits.Evaluations))
	case w.visits > w.limits.Visits:
		w.tooLarge(fmt.Sprintf("its loops take more than %d steps", w.limits.Visits))
	case w.visits&0xffff == 0 && w.hopeless(evals):
	default:
		return true
	}
	return false
}

// hopeless judges by the progress so far whether the work would exceed its
// limits by far, so that nobody waits for a limit that is certain to be hit.
// Filters remove points unevenly, so the margin is wide.
func (w *walker) hopeless(evals int64) bool {
	const margin = 1000
	done := w.progress()
	if all := float64(evals) / done; all > margin*float64(w.limits.Evaluations) {
		w.tooLarge(fmt.Sprintf("its filters and derived values would need some %.0e evaluations, and %d are the limit", all, w.limits.Evaluations))
		return true
	}
	if all := float64(w.visits) / done; all > margin*float64(w.limits.Visits) {
		w.tooLarge(fmt.Sprintf("its loops would take some %.0e steps, and %d are the limit", all, w.limits.Visits))
		return true
	}
	return false
}

// progress is the share of the current set's loops that is done, judged by
// where they stand; at least 1e-18.
func (w *walker) progress() float64 {
	done, weight := 0.0, 1.0
	for _, l := range w.set.levels[1:] {
		if len(l.vars) == 0 || l.vars[0].cur < 0 || l.size == 0 {
			break
		}
		at := 0
		for at < l.size-1 && !l.stands(at) {
			at++
		}
		done += weight * float64(at) / float64(l.size)
		weight /= float64(l.size)
	}
	return max(done, weight, 1e-18)
}

// stands says whether the loop is at entry i.
func (l *level) stands(i int) bool {
	for f, v := range l.vars {
		if l.ids[f][i] != v.cur {
			return false
		}
	}
	return true
}

func (w *walker) tooLarge(why string) {
	w.stop = errStopped
	declared := int64(0)
	for _, sp := range w.p.sets {
		declared = addSat(declared, sp.declared())
	}
	sizes := w.set.sizes()
	if w.set.set.Name != "" {
		sizes = fmt.Sprintf("in %s: %s", w.set.set.label(), sizes)
	}
	w.diags = append(w.diags, errorAt(w.longest(), "Grid too large", fmt.Sprintf(
		"The grid declares %s combinations (%s), and %s. Shorten an axis, make rows of values that belong together, or add a filter that needs only the outer loops; loop_order decides which are outer.",
		count(declared), sizes, why)))
}

// longest is where the longest loop of the current set stands: what to shorten.
func (w *walker) longest() hcl.Range {
	at, size := w.p.spec.Range, 0
	for _, lv := range w.set.levels[1:] {
		if lv.dim != nil && lv.size > size && lv.dim.Range.Filename != "" {
			at, size = lv.dim.Range, lv.size
		}
	}
	return at
}

// count writes a number, or says that it is beyond int64.
func count(n int64) string {
	if n == 1<<63-1 {
		return "more than 9e18"
	}
	return fmt.Sprint(n)
}

// filterFailed reports a filter that failed on the current combination, once.
func (w *walker) filterFailed(f *filterProg) {
	f.broken = true
	w.failed(f.whole, fmt.Sprintf("filter %q", f.src.Label()), func(v cty.Value) *hcl.Diagnostic {
		what := "null"
		if !v.IsNull() {
			what = v.Type().FriendlyName()
		}
		return errorAt(f.whole.expr.src.Range(), "Filter without an answer", fmt.Sprintf("keep must be true or false; it is %s.", what))
	})
}

// deriveFailed reports a derived value that failed on a kept combination, once.
func (w *walker) deriveFailed(v *variable) {
	dp := w.set.derives[v]
	if dp == nil || dp.failing {
		return
	}
	dp.failing = true
	w.failed(dp.prog, fmt.Sprintf("derive %q", v.info.name), func(cty.Value) *hcl.Diagnostic {
		return errorAt(dp.prog.expr.src.Range(), "Number out of range", fmt.Sprintf("The value of %q is not a finite number.", v.info.name))
	})
}

// failed evaluates p once more, to report why it has no usable value for the
// current combination.
func (w *walker) failed(p *prog, what string, otherwise func(cty.Value) *hcl.Diagnostic) {
	w.derive(p.vars)
	for _, v := range p.vars {
		if v.cur == idError {
			w.deriveFailed(v)
			return
		}
	}
	val, diags := p.eval()
	var diag *hcl.Diagnostic
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			c := *d
			diag = &c
			break
		}
	}
	if diag == nil {
		diag = otherwise(val)
	}
	if diag.Subject == nil {
		diag.Subject = p.expr.src.Range().Ptr()
	}
	ctx := p.expr.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{}
	detail := ""
	for i, v := range p.vars {
		ctx.Variables[v.info.name] = v.slot
		if i > 0 {
			detail += ", "
		}
		detail += v.info.name + " = " + display(v.slot)
	}
	diag.Expression, diag.EvalContext = p.expr.src, ctx
	diag.Detail += fmt.Sprintf(" This is %s", what)
	if detail != "" {
		diag.Detail += " where " + detail
	}
	diag.Detail += "."
	w.diags = append(w.diags, diag)
}
