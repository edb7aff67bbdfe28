package grid

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// limits bound an expansion. The number of declared combinations is not limited: a filter of an
// outer loop may drop whole products at once, so a large declaration may be cheap.
type limits struct {
	cases       int   // maximum number of kept combinations, counted before duplicates are removed
	visits      int64 // maximum number of loop steps, which take about 30 nanoseconds
	evaluations int64 // maximum number of HCL evaluations, which take 1 to 5 microseconds
}

// defaultLimits allow grids of up to four million cases. Such a grid takes some seconds and about 300 MB.
var defaultLimits = limits{cases: 4_000_000, visits: 100_000_000, evaluations: 4_000_000}

// fits reports whether n more combinations may be kept. If not, it adds a diagnostic and stops the
// walk.
func (w *walker) fits(n int64) bool {
	if n <= int64(w.limits.cases)-int64(w.kept) {
		return true
	}
	w.tooLarge(fmt.Sprintf("it keeps more than %d", w.limits.cases))
	return false
}

// visit counts a loop step. If there were too many steps or evaluations, it adds a diagnostic, stops the walk and
// returns false.
func (w *walker) visit() bool {
	w.visits++
	switch {
	case w.evals > w.limits.evaluations:
		w.tooLarge(fmt.Sprintf("its filters and derived values need more than %d evaluations", w.limits.evaluations))
	case w.visits > w.limits.visits:
		w.tooLarge(fmt.Sprintf("its loops take more than %d steps", w.limits.visits))
	default:
		return true
	}
	return false
}

func (w *walker) tooLarge(why string) {
	w.stopped = true
	sizes := w.set.sizes()
	if w.set.set.Name != "" {
		sizes = fmt.Sprintf("in %s: %s", w.set.set.label(), sizes)
	}

	w.diags = append(w.diags, errorAt(w.longest(), "Grid too large",
		"The grid declares %s combinations (%s), and %s. Shorten an axis, make rows of values that belong together, or add "+
			"a filter that needs only the outer loops; loop_order decides which are outer.",
		count(w.p.declared()), sizes, why))
}

// longest returns the range of the longest loop of the current set, which is the first candidate to
// shorten.
func (w *walker) longest() hcl.Range {
	at, size := w.p.spec.Range, 0
	for _, lv := range w.set.levels[1:] {
		if lv.size > size {
			at, size = lv.dim.Range, lv.size
		}
	}
	return at
}

// count formats a number. The largest int64 means that the sum overflowed.
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
		return errorAt(f.whole.expr.src.Range(), "Filter without an answer",
			"keep must be true or false; it is %s.", friendly(v))
	})
}

// deriveFailed reports a derived value that failed on a kept combination, once.
func (w *walker) deriveFailed(v *variable) {
	dp := w.set.derives[v]
	if dp == nil || dp.failing {
		return
	}

	dp.failing = true
	name, what := v.info.name, fmt.Sprintf("derive %q", v.info.name)
	if w.p.spec.names[name] == nil {
		name, what = "of", "distinct"
	}
	w.failed(dp.prog, what, func(cty.Value) *hcl.Diagnostic {
		return errorAt(dp.prog.expr.src.Range(), "Number out of range",
			"The value of %q is not a finite number.", name)
	})
}

// failed evaluates p again to report why it has no usable value for the current combination.
// otherwise supplies the diagnostic if HCL reports no error.
func (w *walker) failed(p *prog, what string, otherwise func(cty.Value) *hcl.Diagnostic) {
	w.derive(p.vars)
	for _, v := range p.vars {
		if v.cur == idError {
			w.deriveFailed(v)
			return
		}
	}

	val, diags := p.eval()
	diag := otherwise(val)
	if errs := diags.Errs(); len(errs) > 0 {
		*diag = *errs[0].(*hcl.Diagnostic)
	}
	if diag.Subject == nil {
		diag.Subject = p.expr.src.Range().Ptr()
	}

	ctx := p.expr.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{}

	var values []string
	for _, v := range p.vars {
		ctx.Variables[v.info.name] = v.slot
		values = append(values, v.info.name+" = "+display(v.slot))
	}

	diag.Expression, diag.EvalContext = p.expr.src, ctx
	diag.Detail += " This is " + what
	if len(values) > 0 {
		diag.Detail += " where " + strings.Join(values, ", ")
	}

	diag.Detail += "."
	w.diags = append(w.diags, diag)
}
