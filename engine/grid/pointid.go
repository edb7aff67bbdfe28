package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// The ID of a point equals the ID of a case that has the point's values as parameters, so it does not
// matter whether a parameter is an axis or swept.
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
	return c.idWriter(c.SweepColumns())
}

// idWriter returns a function that appends the ID of point j of case i to a slice: the hash of the columns
// of the case and of the swept columns, sorted by name. The function reuses a buffer and must not be called concurrently.
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
		buf = append(append(buf[:0], c.spec.Op...), '\n')
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
