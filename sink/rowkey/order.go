package rowkey

import (
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/table"
)

// Order returns the positions of the rows of rec sorted by columns, see
// table.SortIndices; "-name" sorts from the largest value on. Rows that agree on all of
// them follow the remaining columns of the record, so that the result does not depend
// on the order of the rows. Columns that rec lacks are ignored.
func Order(rec arrow.Record, columns []string) ([]int, error) {
	rec, err := Plain(rec)
	if err != nil {
		return nil, err
	}

	var keys []table.SortKey
	for _, name := range columns {
		name, falling := strings.CutPrefix(name, "-")
		if table.Has(rec, name) {
			keys = append(keys, table.SortKey{Name: name, Desc: falling})
		}
	}
	for _, name := range table.Names(rec) {
		if !slices.ContainsFunc(keys, func(k table.SortKey) bool { return k.Name == name }) {
			keys = append(keys, table.SortKey{Name: name})
		}
	}

	return table.SortIndices(rec, keys...)
}

// Plain returns rec with columns of the four types of package table: rec itself if it
// has no others.
func Plain(rec arrow.Record) (arrow.Record, error) {
	for _, c := range rec.Columns() {
		switch c.DataType().ID() {
		case arrow.INT64, arrow.FLOAT64, arrow.STRING, arrow.BOOL:
		default:
			return table.Normal(rec)
		}
	}
	return rec, nil
}
