package grid

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Expand computes the cases of a grid. Cases are nil if and only if the diagnostics contain errors.
// Every diagnostic has a Subject.
func Expand(spec *Spec) (*Cases, hcl.Diagnostics) {
	return expand(spec, options{defaultLimits, (*walker).run})
}

// options configure an expansion. Tests use others than Expand.
type options struct {
	limits limits
	walk   func(*walker)
}

func expand(spec *Spec, opts options) (*Cases, hcl.Diagnostics) {
	w := newWalker(newProgram(spec, nil), opts.limits)
	opts.walk(w)
	if w.diags.HasErrors() {
		return nil, spec.located(w.diags)
	}

	c := newCases(spec)
	if diags := c.fill(w); diags.HasErrors() {
		return nil, spec.located(diags)
	}

	if spec.Sweep != nil {
		if diags := c.expandSweep(w, opts); diags.HasErrors() {
			return nil, spec.located(diags)
		}
	}

	c.Waterfall = waterfall(w, c)
	return c, spec.located(w.diags)
}

// FilterCount contains the number of combinations that one filter dropped.
type FilterCount struct {
	Name, Reason string
	Dropped      int64
	// Note is set if the filter does not depend on the grid's names: it is then always true, or it
	// drops everything.
	Note    string
	Samples []string // up to 3 dropped combinations, name=value
}

// Waterfall counts how the declared combinations became cases: Declared = sum of Dropped +
// Duplicates + Cases, as long as the numbers are below 2^63.
//
// A combination that several filters drop is charged to one of them: if the loops are bound one by
// one from the outermost, it is the filter that is known to be false after the fewest loops. If
// several filters qualify, it is the first in source order. Each condition between && is evaluated
// at the start and when the last of its names is bound. If it has logical operators, it is also
// evaluated whenever another of its names is bound.
type Waterfall struct {
	Declared   int64
	Filters    []FilterCount // in source order
	Duplicates int
	Cases      int
	Rows       int // including sweep points
}

func waterfall(w *walker, c *Cases) Waterfall {
	out := Waterfall{Declared: w.p.declared(), Duplicates: c.duplicates, Cases: c.Len(), Rows: c.Rows()}
	for _, f := range w.p.filters {
		n := FilterCount{Name: f.src.Label(), Reason: f.src.Reason, Dropped: f.dropped, Samples: f.samples}
		switch f.constant() {
		case isTrue:
			n.Note = "always true here"
		case isFalse:
			n.Note = "removes every case"
			if f.src.Set != "" {
				n.Note = fmt.Sprintf("removes every case of %s", f.src.Set)
			}
		}

		out.Filters = append(out.Filters, n)
	}

	return out
}

// constant evaluates a filter with all names unbound. It returns isTrue or isFalse if the filter
// does not depend on them.
func (f *filterProg) constant() answer {
	for _, v := range f.whole.vars {
		v.cur = idUnbound
	}
	v, diags := f.whole.eval()
	if diags.HasErrors() {
		return isOpen
	}

	return judge(v, nil)
}

// columnOf returns the dictionary and the ids of a stored name.
func (w *walker) columnOf(name string) (*variable, []int32) {
	i := slices.Index(w.p.stored, w.p.sp.vars[name])
	return w.p.stored[i], w.cols[i]
}

// compact returns the dictionary entries that ids use and the renumbered ids. Entries are in order
// of first use, so the result does not depend on combinations that were dropped.
func compact(v *variable, ids []int32) ([]cty.Value, []int32) {
	renumber := make([]int32, len(v.vals))
	for i := range renumber {
		renumber[i] = -1
	}

	var dict []cty.Value
	out := make([]int32, len(ids))
	for i, id := range ids {
		if renumber[id] < 0 {
			renumber[id] = int32(len(dict))
			dict = append(dict, v.vals[id])
		}
		out[i] = renumber[id]
	}

	return dict, out
}
