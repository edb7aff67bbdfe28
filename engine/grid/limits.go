package grid

import (
	"fmt"

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

// fits returns whether n more combinations may be kept. If not, the walk stops with
// a diagnostic.
func (w *walker) fits(n int64) bool {
	if n <= int64(w.limits.Cases)-int64(w.kept) {
		return true
	}
	w.tooLarge(fmt.Sprintf("it keeps more than %d", w.limits.Cases))
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
	default:
		return true
	}
	return false
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
