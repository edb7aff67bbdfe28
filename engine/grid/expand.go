package grid

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Options of an expansion.
type Options struct {
	Limits Limits // the zero value means DefaultLimits

	walk func(*walker) // tests replace the memoised walk
}

// Expand computes the cases of a grid. Cases are nil exactly when the
// diagnostics have errors; every diagnostic has a Subject.
func Expand(ctx context.Context, spec *Spec, opts Options) (cases *Cases, diags hcl.Diagnostics) {
	defer recoverTo(&diags, spec.Range, func() { cases = nil })
	if opts.Limits == (Limits{}) {
		opts.Limits = DefaultLimits()
	}
	if opts.walk == nil {
		opts.walk = (*walker).run
	}

	w := newWalker(ctx, newProgram(spec, nil), opts.Limits)
	opts.walk(w)
	if w.diags.HasErrors() {
		return nil, spec.located(w.diags)
	}
	c := &Cases{spec: spec, evaluations: w.evals}
	if diags := c.fill(w); diags.HasErrors() {
		return nil, spec.located(diags)
	}
	if spec.Sweep != nil {
		if diags := c.expandSweep(ctx, w, opts); diags.HasErrors() {
			return nil, spec.located(diags)
		}
	}
	c.waterfall = waterfall(w, c)
	return c, spec.located(w.diags)
}

// FilterCount is what one filter dropped.
type FilterCount struct {
	Name, Reason string
	Dropped      int64
	// Note says that the filter does not depend on the grid's names, or that
	// it drops everything.
	Note    string
	Samples []string // up to 3 dropped combinations, name=value
}

// Waterfall shows how the declared combinations became cases:
// Declared = sum of Dropped + Duplicates + Cases, as long as the numbers stay
// below 2^63.
//
// A combination that several filters drop is charged to one of them: binding
// the loops one after another from the outermost in, the filter that is known
// to be false after the fewest loops, and of several the first in the plan's
// text. "Known" is asked of every condition between && at the start, when the
// last of its names is bound and, if it has logical operators, whenever
// another of its names is.
type Waterfall struct {
	Declared   int64
	Filters    []FilterCount // in the order of the text
	Duplicates int
	Cases      int
	Rows       int // with sweep points
}

func waterfall(w *walker, c *Cases) Waterfall {
	out := Waterfall{Duplicates: c.duplicates, Cases: c.Len(), Rows: c.Rows()}
	for _, sp := range w.p.sets {
		out.Declared = addSat(out.Declared, sp.declared())
	}
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

// constant is the verdict on a filter with none of the grid's names bound.
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

// columnOf returns the dictionary and ids of a stored name.
func (w *walker) columnOf(name string) (*variable, []int32) {
	for i, v := range w.p.stored {
		if v.info.name == name {
			return v, w.cols[i]
		}
	}
	panic("grid: " + name + " is not stored")
}

// compact returns the dictionary of a column as kept cases use it, with ids
// renumbered in order of first use, so that it does not depend on what was
// looked at and dropped.
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
