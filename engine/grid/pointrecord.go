package grid

import "github.com/apache/arrow/go/v17/arrow"

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
	n := (c.Rows() + step - 1) / step
	flat := &Cases{spec: c.spec, n: n, idBytes: make([]byte, 0, n*IDLength)}
	if c.SweepColumns() == nil {
		return c.caseSample(flat, step)
	}
	rows, points := make([]int32, 0, n), make([]int32, 0, n) // the cases, and which of their points
	ids := c.pointIDWriter()
	skip := 0
	for i := range c.n {
		j := skip
		for ; j < c.Sweep(i).Len(); j += step {
			rows, points = append(rows, int32(i)), append(points, int32(j))
			flat.idBytes = ids(flat.idBytes, i, j)
		}
		skip = j - c.Sweep(i).Len()
	}
	flat.idOnce.Do(func() {}) // makeRecord reads the bytes alone
	swept := map[string]bool{}
	for at, name := range c.SweepColumns() {
		swept[name] = true
		flat.columns = append(flat.columns, c.sweptColumn(at, name, rows, points))
	}
	var own []column
	for _, k := range c.columns {
		if !swept[k.name] {
			own = append(own, k.only(rows))
		}
	}
	flat.columns = append(own, flat.columns...)
	return flat.makeRecord()
}

func (c *Cases) caseSample(flat *Cases, step int) arrow.Record {
	if step == 1 {
		return c.Record()
	}
	c.idOnce.Do(c.makeIDs)
	var rows []int32
	for i := 0; i < c.n; i += step {
		rows = append(rows, int32(i))
		flat.idBytes = append(flat.idBytes, c.idBytes[i*IDLength:(i+1)*IDLength]...)
	}
	flat.idOnce.Do(func() {}) // makeRecord reads the bytes alone
	for _, k := range c.columns {
		flat.columns = append(flat.columns, k.only(rows))
	}
	return flat.makeRecord()
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
