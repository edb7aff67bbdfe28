package testutil

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
)

// Difference returns the text of two records if their columns, types or values are different, otherwise "".
// NaN equals NaN.
func Difference(a, b arrow.Record) string {
	exact := []array.EqualOption{array.WithNaNsEqual(true), array.WithAbsTolerance(0)}
	if a.Schema().Equal(b.Schema()) && array.RecordApproxEqual(a, b, exact...) {
		return ""
	}
	return fmt.Sprintf("%v -> %v", a, b)
}
