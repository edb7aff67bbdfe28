package grid

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// Points are the points that a case sweeps inside one task, in loop order.
type Points struct {
	rows
	digest string
}

// sweepPoints contains the points of all cases. Cases that must have the same points share one
// list.
type sweepPoints struct {
	lists []Points
	of    []int32 // index into lists, by case
	rows  int
}

// JSON returns an array with one object per point. The keys are in column order.
func (p Points) JSON() []byte {
	out := []byte{'['}
	for j := range p.n {
		if j > 0 {
			out = append(out, ',')
		}
		out = appendObject(out, p.columns, j)
	}

	return append(out, ']')
}

// Digest returns the SHA-256, in hexadecimal, of the names and values of all points in order, or ""
// if there are no points.
func (p Points) Digest() string { return p.digest }

func (p Points) sum() string {
	buf := []byte(strings.Join(p.names, ",") + "\n")
	for j := range p.n {
		for _, c := range p.columns {
			buf = append(append(buf, c.texts[c.ids[j]]...), '\n')
		}
	}

	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:])
}

// SweepColumns returns the names of the swept parameters, or nil without a sweep.
func (c *Cases) SweepColumns() []string {
	if c.spec.Sweep == nil {
		return nil
	}
	return c.spec.Sweep.Columns
}

// Sweep returns the points of case i. Without a sweep it returns zero Points.
func (c *Cases) Sweep(i int) Points {
	if c.sweep == nil {
		return Points{}
	}
	return c.sweep.lists[c.sweep.of[i]]
}

// SweepCodes returns a function that returns the code of a swept column for case i and point j.
// Equal codes mean equal values; codes start at 0.
func (c *Cases) SweepCodes(col int) func(i, j int) int {
	offset := make([]int, len(c.sweep.lists))
	n := 0
	for list, p := range c.sweep.lists {
		offset[list] = n
		n += len(p.columns[col].dict)
	}

	return func(i, j int) int {
		list := c.sweep.of[i]
		return offset[list] + int(c.sweep.lists[list].columns[col].ids[j])
	}
}

// Rows returns the number of rows that the cases produce: the number of all sweep points, or the
// number of cases without a sweep.
func (c *Cases) Rows() int {
	if c.sweep == nil {
		return c.n
	}
	return c.sweep.rows
}

// expandSweep expands the sweep for every case. Cases with equal values of the names that the sweep
// uses share one expansion.
func (c *Cases) expandSweep(ctx context.Context, w *walker, opts Options) hcl.Diagnostics {
	sub := c.spec.Sweep
	var diags hcl.Diagnostics

	outer := sub.outerNames()
	var vars []*variable
	var cols [][]int32
	for _, name := range outer {
		v, ids := w.columnOf(name)
		vars, cols = append(vars, v), append(cols, ids)
	}

	c.sweep = &sweepPoints{of: make([]int32, c.n)}

	known := newKeyer(w, outer)
	lists := map[rowKey]int32{}
	var total int64
	sw := newWalker(ctx, newProgram(sub, w.p.sp), opts.Limits)
	for i, at := range w.stay {
		key := known.of(at)
		list, ok := lists[key]
		if !ok {
			for o, v := range vars {
				v.cur = cols[o][at]
			}
			points, more := sw.points(opts.walk)
			if diags = append(diags, more...); diags.HasErrors() {
				return diags
			}

			list = int32(len(c.sweep.lists))
			lists[key] = list
			c.sweep.lists = append(c.sweep.lists, points)
		}

		c.sweep.of[i] = list
		total += int64(c.sweep.lists[list].n)
		if total > opts.Limits.Points {
			return hcl.Diagnostics{errorAt(sub.Range, "Sweep too large",
				"The cases sweep more than "+count(opts.Limits.Points)+
					" points in all. Shorten an axis of the sweep or add a filter to it.")}
		}
	}

	c.sweep.rows = int(total)
	c.evaluations += sw.evals
	return diags
}

// points expands the sweep for the case whose names are currently bound.
func (w *walker) points(walk func(*walker)) (Points, hcl.Diagnostics) {
	w.reset()
	walk(w)
	if w.diags.HasErrors() {
		return Points{}, w.diags
	}

	inner := newCases(w.p.spec)
	if diags := inner.fill(w); diags.HasErrors() {
		return Points{}, diags
	}

	out := Points{rows: inner.rows}
	out.digest = out.sum()
	return out, nil
}

// reset drops the kept combinations but keeps the memos.
func (w *walker) reset() {
	w.cols = make([][]int32, len(w.p.stored))
	w.sets, w.kept = nil, 0
}
