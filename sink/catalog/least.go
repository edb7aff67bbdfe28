package catalog

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// Least is the smallest value that a size in a key can have; ok is false for
// columns that hold no size.
func (c Column) Least() (least int64, ok bool) {
	switch {
	case c.Type.ID() != arrow.INT64 || c.Role != Key && c.Role != Optional:
		return 0, false
	case slices.ContainsFunc(builtIn().Columns, func(b Column) bool {
		return b.Name == c.Name && b.Type == c.Type && b.Zero
	}):
		return 0, true
	}
	return 1, true
}
