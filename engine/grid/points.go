package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Points are the points that a case sweeps inside one task, in loop order.
type Points struct {
	rows
	Digest string // SHA-256, in hexadecimal, of the names and values in order; "" without points
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
	if c.Spec.Sweep == nil {
		return nil
	}
	return c.Spec.Sweep.Columns
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
func (c *Cases) expandSweep(w *walker, opts options) hcl.Diagnostics {
	sub := c.Spec.Sweep
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
	lists := map[string]int32{}
	sw := newWalker(newProgram(sub, w.p.sp), opts.limits)
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
		c.sweep.rows += c.sweep.lists[list].n
	}

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
	out.Digest = out.sum()
	return out, nil
}

// reset drops the kept combinations but keeps the memos.
func (w *walker) reset() {
	w.cols = make([][]int32, len(w.p.stored))
	w.kept = 0
}

// PointIDs returns the IDs of the points of case i in order. Without a sweep it returns only the ID of the case. The ID
// of a point equals the ID of a case that has the point's values as parameters, so it does not matter whether a
// parameter is an axis or swept.
func (c *Cases) PointIDs(i int) []string {
	if c.SweepColumns() == nil {
		return []string{c.ID(i)}
	}

	ids := c.pointIDWriter()
	out := make([]string, c.Sweep(i).Len())
	for j := range out {
		out[j] = string(ids(nil, i, j))
	}

	return out
}

// pointIDWriter returns a function that appends the ID of point j of case i to a slice. The
// function reuses a buffer and must not be called concurrently.
func (c *Cases) pointIDWriter() func(to []byte, i, j int) []byte {
	if c.sweep == nil {
		return func(to []byte, i, _ int) []byte { return append(to, c.ID(i)...) }
	}
	return c.idWriter(c.SweepColumns())
}

// idWriter returns a function that appends the ID of point j of case i to a slice: the hash of the columns
// of the case and of the swept columns, sorted by name. The function reuses a buffer and must not be called
// concurrently.
func (c *Cases) idWriter(swept []string) func(to []byte, i, j int) []byte {
	type part struct {
		name  string
		col   int
		swept bool
	}

	var parts []part
	for col, name := range swept {
		parts = append(parts, part{name, col, true})
	}
	for col := range c.columns {
		parts = append(parts, part{c.columns[col].name, col, false})
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.name, b.name) })

	buf := make([]byte, 0, 1024)
	return func(to []byte, i, j int) []byte {
		buf = append(append(buf[:0], c.Spec.Op...), '\n')
		for _, p := range parts {
			k, row := &c.columns, i
			if p.swept {
				k, row = &c.sweep.lists[c.sweep.of[i]].columns, j
			}

			of := &(*k)[p.col]
			buf = append(append(buf, p.name...), '=')
			buf = append(append(buf, of.texts[of.ids[row]]...), '\n')
		}

		sum := sha256.Sum256(buf)
		return hex.AppendEncode(to, sum[:IDLength/2])
	}
}

// PointRecord returns the case table with one row per sweep point. case_id is the ID of the point.
// The swept parameters follow the columns of the case. Without a sweep it returns Record.
func (c *Cases) PointRecord() arrow.Record {
	if c.SweepColumns() == nil {
		return c.Record()
	}
	var rows, points []int32 // for each row: index of the case, index of the point within it
	for i := range c.n {
		for j := range c.Sweep(i).Len() {
			rows, points = append(rows, int32(i)), append(points, int32(j))
		}
	}
	return c.PointsAt(rows, points)
}

// PointsAt returns the rows of PointRecord for some points of some cases: points[i]
// is a point of case rows[i], 0 without a sweep.
func (c *Cases) PointsAt(rows, points []int32) arrow.Record {
	var all []column
	for _, k := range c.columns {
		k.ids = pick(k.ids, rows)
		all = append(all, k)
	}
	for at, name := range c.SweepColumns() {
		all = append(all, c.sweptColumn(at, name, rows, points))
	}

	return tableOf(c.Spec, all, len(rows), func() []byte {
		all, write := make([]byte, 0, len(rows)*IDLength), c.pointIDWriter()
		for at, i := range rows {
			all = write(all, int(i), int(points[at]))
		}
		return all
	})
}

// sweptColumn returns a swept parameter as a column with one value per pair of case and point.
func (c *Cases) sweptColumn(at int, name string, rows, points []int32) column {
	var dict []cty.Value
	for _, list := range c.sweep.lists {
		dict = append(dict, list.columns[at].dict...)
	}

	ids, code := make([]int32, len(rows)), c.SweepCodes(at)
	for r, i := range rows {
		ids[r] = int32(code(int(i), int(points[r])))
	}

	return newColumn(name, dict, ids)
}
