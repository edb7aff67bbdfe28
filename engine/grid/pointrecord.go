package grid

import (
	"github.com/apache/arrow/go/v17/arrow"
	"github.com/zclconf/go-cty/cty"
)

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
		all = append(all, k.only(rows))
	}
	for at, name := range c.SweepColumns() {
		all = append(all, c.sweptColumn(at, name, rows, points))
	}

	return tableOf(c.spec, all, len(rows), func() []byte {
		all, write := make([]byte, 0, len(rows)*IDLength), c.pointIDWriter()
		for at, i := range rows {
			all = write(all, int(i), int(points[at]))
		}
		return all
	})
}

// only returns the column reduced to the given rows.
func (k column) only(rows []int32) column {
	ids := make([]int32, len(rows))
	for at, i := range rows {
		ids[at] = k.ids[i]
	}
	k.ids = ids
	return k
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
