package grid

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// PointID is the id of point j of case i: that of a case which has the point's
// values among its parameters, so that it does not matter whether a parameter
// is an axis or swept. Without a sweep it is ID(i).
func (c *Cases) PointID(i, j int) string {
	p := c.Sweep(i)
	if p.Len() == 0 {
		return c.ID(i)
	}
	return c.pointID(i, p, j)
}

func (c *Cases) pointID(i int, p Points, j int) string {
	lines := make([]string, 0, len(c.columns)+len(p.columns))
	add := func(name string, v cty.Value) {
		lines = append(lines, name+"="+canonical(v)+"\n")
	}
	for col := range c.columns {
		// A swept parameter stands for the case's own of that name.
		if !slices.Contains(p.columns, c.columns[col].name) {
			add(c.columns[col].name, c.Value(i, col))
		}
	}
	for col, name := range p.columns {
		add(name, p.Value(j, col))
	}
	slices.SortFunc(lines, func(a, b string) int {
		na, _, _ := strings.Cut(a, "=")
		nb, _, _ := strings.Cut(b, "=")
		return strings.Compare(na, nb)
	})
	sum := sha256.Sum256([]byte(c.spec.Op + "\n" + strings.Join(lines, "")))
	return hex.EncodeToString(sum[:IDLength/2])
}
