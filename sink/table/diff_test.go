package table

import (
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
)

// Diff describes the first difference between two records, or returns "" if they have the same columns in the same
// order with the same values. Null equals null, NaN equals NaN, and int64 1 does not equal float64 1.
func Diff(a, b arrow.Record) string {
	if x, y := strings.Join(Names(a), ", "), strings.Join(Names(b), ", "); x != y {
		return fmt.Sprintf("columns: %s -> %s", x, y)
	}
	if a.NumRows() != b.NumRows() {
		return fmt.Sprintf("rows: %d -> %d", a.NumRows(), b.NumRows())
	}

	for i, name := range Names(a) {
		x, y := a.Column(i), b.Column(i)
		if s, t := TypeName(x.DataType()), TypeName(y.DataType()); s != t {
			return fmt.Sprintf("column %q: %s -> %s", name, s, t)
		}

		for row := range int(a.NumRows()) {
			v, w := valueOf(x, row), valueOf(y, row)
			f, isFloat := v.(float64)
			if g, ok := w.(float64); v != w && !(isFloat && ok && math.IsNaN(f) && math.IsNaN(g)) {
				return fmt.Sprintf("column %q, row %d: %#v -> %#v", name, row, v, w)
			}
		}
	}

	return ""
}
