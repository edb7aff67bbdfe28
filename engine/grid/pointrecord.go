package grid

import (
	"slices"

	"github.com/apache/arrow/go/v17/arrow"
)

// PointRecord is the table of the cases with one row a point of their sweeps:
// case_id is the point's, and the swept parameters are columns behind the case's
// own (or in their place, where they have one's name). Without a sweep it is
// Record.
func (c *Cases) PointRecord() arrow.Record {
	if c.SweepColumns() == nil {
		return c.Record()
	}
	return c.PointSample(1)
}

// PointSample is every step-th row of PointRecord, beginning with the first, made
// without the others.
func (c *Cases) PointSample(step int) arrow.Record {
	step = max(1, step)
	if c.SweepColumns() == nil {
		return c.caseSample(step)
	}
	n := (c.Rows() + step - 1) / step
	rows, points := make([]int32, 0, n), make([]int32, 0, n) // the cases, and which of their points
	skip := 0
	for i := range c.n {
		j := skip
		for ; j < c.Sweep(i).Len(); j += step {
			rows, points = append(rows, int32(i)), append(points, int32(j))
		}
		skip = j - c.Sweep(i).Len()
	}
	var own, swept []column
	for at, name := range c.SweepColumns() {
		swept = append(swept, c.sweptColumn(at, name, rows, points))
	}
	for _, k := range c.columns {
		if !slices.ContainsFunc(swept, func(s column) bool { return s.name == k.name }) {
			own = append(own, k.only(rows))
		}
	}
	return tableOf(c.spec, append(own, swept...), n, func() []byte {
		all, write := make([]byte, 0, n*IDLength), c.pointIDWriter()
		for at, i := range rows {
			all = write(all, int(i), int(points[at]))
		}
		return all
	})
}

func (c *Cases) caseSample(step int) arrow.Record {
	if step == 1 {
		return c.Record()
	}
	var rows []int32
	for i := 0; i < c.n; i += step {
		rows = append(rows, int32(i))
	}
	var columns []column
	for _, k := range c.columns {
		columns = append(columns, k.only(rows))
	}
	return tableOf(c.spec, columns, len(rows), func() []byte {
		c.idOnce.Do(c.makeIDs)
		all := make([]byte, 0, len(rows)*IDLength)
		for _, i := range rows {
			all = append(all, c.idBytes[int(i)*IDLength:(int(i)+1)*IDLength]...)
		}
		return all
	})
}

// only is the column at some rows.
func (k column) only(rows []int32) column {
	ids := make([]int32, len(rows))
	for at, i := range rows {
		ids[at] = k.ids[i]
	}
	k.ids = ids
	return k
}

// sweptColumn is a swept parameter at some points of some cases.
func (c *Cases) sweptColumn(at int, name string, rows, points []int32) column {
	k := column{name: name, ids: make([]int32, len(rows))}
	for _, list := range c.sweep.lists {
		k.dict = append(k.dict, list.cols[at].dict...)
	}
	k.kind, _ = columnKind(k.dict)
	code := c.SweepCodes(at)
	for r, i := range rows {
		k.ids[r] = int32(code(int(i), int(points[r])))
	}
	return k
}
