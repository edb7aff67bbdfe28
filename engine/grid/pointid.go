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
	c.pointsOnce.Do(func() { c.points = c.newIDText(c.SweepColumns()) })
	return c.points.writer()
}

// idText contains the text lines that are hashed into the IDs of cases or points.
type idText struct {
	cases  *Cases
	order  []idPart     // sorted by name
	ofCase [][][]byte   // by column, then dictionary entry
	ofList [][][][]byte // by list of points, swept column and dictionary entry
}

type idPart struct {
	name  string
	col   int
	swept bool
}

// newIDText returns the text of IDs with the swept columns, which replace columns of the case with the same name.
func (c *Cases) newIDText(swept []string) *idText {
	t := &idText{cases: c, ofCase: textsOf(c.columns)}
	for col := range c.columns {
		if name := c.columns[col].name; !slices.Contains(swept, name) {
			t.order = append(t.order, idPart{name: name, col: col})
		}
	}

	for col, name := range swept {
		t.order = append(t.order, idPart{name: name, col: col, swept: true})
	}
	if len(swept) > 0 {
		for _, p := range c.sweep.lists {
			t.ofList = append(t.ofList, textsOf(p.cols))
		}
	}

	slices.SortFunc(t.order, func(a, b idPart) int { return strings.Compare(a.name, b.name) })
	return t
}

// writer returns a function that appends the ID of point j of case i to a slice. The function reuses a buffer and
// must not be called concurrently.
func (t *idText) writer() func(to []byte, i, j int) []byte {
	c, buf := t.cases, make([]byte, 0, 1024)
	return func(to []byte, i, j int) []byte {
		buf = append(append(buf[:0], c.spec.Op...), '\n')
		for _, part := range t.order {
			if part.swept {
				list := c.sweep.of[i]
				buf = append(buf, t.ofList[list][part.col][c.sweep.lists[list].cols[part.col].ids[j]]...)
			} else {
				buf = append(buf, t.ofCase[part.col][c.columns[part.col].ids[i]]...)
			}
		}

		sum := sha256.Sum256(buf)
		return hex.AppendEncode(to, sum[:IDLength/2])
	}
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
