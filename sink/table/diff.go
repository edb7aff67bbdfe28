package table

import (
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
)

// Equal reports whether a and b have the same columns in the same order with the same
// values. Null equals null, NaN equals NaN, and int64 1 does not equal float64 1.
func Equal(a, b arrow.Record) bool { return Diff(a, b) == "" }

// Diff describes how b differs from a, in at most about ten lines, for tests and messages.
// It returns "" if they are equal.
func Diff(a, b arrow.Record) string {
	const most = 10
	var lines []string
	more := 0
	add := func(format string, args ...any) {
		if len(lines) < most {
			lines = append(lines, fmt.Sprintf(format, args...))
		} else {
			more++
		}
	}

	na, nb := Names(a), Names(b)
	if strings.Join(na, "\x00") != strings.Join(nb, "\x00") {
		add("columns: %s -> %s", strings.Join(na, ", "), strings.Join(nb, ", "))
	}
	if a.NumRows() != b.NumRows() {
		add("rows: %d -> %d", a.NumRows(), b.NumRows())
	}
	rows := int(min(a.NumRows(), b.NumRows()))
	for i, f := range a.Schema().Fields() {
		j := Index(b, f.Name)
		if j < 0 {
			continue
		}
		ca, cb := a.Column(i), b.Column(j)
		if ta, tb := TypeName(ca.DataType()), TypeName(cb.DataType()); ta != tb {
			add("column %q: %s -> %s", f.Name, ta, tb)
			continue
		}

		for row := range rows {
			va, vb := valueOf(ca, row), valueOf(cb, row)
			if !same(va, vb) {
				add("column %q, row %d: %s -> %s", f.Name, row, show(va), show(vb))
			}
		}
	}

	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more differences", more))
	}

	return strings.Join(lines, "\n")
}

func same(a, b any) bool {
	if fa, ok := a.(float64); ok {
		if fb, ok := b.(float64); ok {
			return fa == fb || (math.IsNaN(fa) && math.IsNaN(fb))
		}
	}

	return a == b
}

func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("%q", v)
	}

	return fmt.Sprint(v)
}
