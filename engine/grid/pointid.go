package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// The ID of a point equals the ID of a case that has the point's values as parameters, so it does not
// matter whether a parameter is an axis or swept. A swept parameter replaces a parameter of the case with
// the same name.

// PointIDs returns the IDs of the points of case i in order. Without a sweep it
// returns only the ID of the case.
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
	c.pointsOnce.Do(func() { c.points = c.newPointText() })
	t := c.points
	buf := make([]byte, 0, 1024)

	return func(to []byte, i, j int) []byte {
		list := c.sweep.of[i]
		p := &c.sweep.lists[list]
		buf = append(append(buf[:0], c.spec.Op...), '\n')

		for _, part := range t.order {
			if part.swept {
				buf = append(buf, t.ofList[list][part.col][p.cols[part.col].ids[j]]...)
			} else {
				buf = append(buf, t.ofCase[part.col][c.columns[part.col].ids[i]]...)
			}
		}

		sum := sha256.Sum256(buf)
		return hex.AppendEncode(to, sum[:IDLength/2])
	}
}

// pointText contains the text lines that are hashed into point IDs.
type pointText struct {
	order  []pointPart  // sorted by name
	ofCase [][][]byte   // by column, then dictionary entry
	ofList [][][][]byte // by list of points, swept column and dictionary entry
}

type pointPart struct {
	name  string
	col   int
	swept bool
}

func (c *Cases) newPointText() *pointText {
	t := &pointText{ofCase: textsOf(c.columns)}
	for _, p := range c.sweep.lists {
		t.ofList = append(t.ofList, textsOf(p.cols))
	}

	swept := c.SweepColumns()
	for col := range c.columns {
		if name := c.columns[col].name; !slices.Contains(swept, name) {
			t.order = append(t.order, pointPart{name: name, col: col})
		}
	}

	for col, name := range swept {
		t.order = append(t.order, pointPart{name: name, col: col, swept: true})
	}

	slices.SortFunc(t.order, func(a, b pointPart) int { return strings.Compare(a.name, b.name) })
	return t
}

func textsOf(columns []column) [][][]byte {
	out := make([][][]byte, len(columns))
	for col := range columns {
		k := &columns[col]
		for _, v := range k.dict {
			out[col] = append(out[col], []byte(k.name+"="+canonical(v)+"\n"))
		}
	}

	return out
}
